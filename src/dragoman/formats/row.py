"""A Format is a row: how a model family writes its calls, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from dragoman.formats.entry import Entry, Place
from dragoman.types import ToolCall

THINK = (("<think>", "</think>"),)
_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Format(Struct, frozen=True):
    """One row of the catalogue. `template` is what is written; `also` are other spellings that are read."""

    name: str
    template: str = ""
    also: tuple[str, ...] = ()
    section: tuple[str, str] | None = None
    """Tags around all the calls of one reply."""
    thinking: tuple[tuple[str, str], ...] = THINK
    drop: tuple[str, ...] = ()
    """Markers that carry no meaning: response wrappers, end-of-turn tokens."""
    keys: tuple[str, str] = ("name", "arguments")
    """How the JSON envelope names its two members when it is written; all known names are read."""
    strict_envelope: bool = False
    """Its models always write one object with a name and arguments; a list, or a name alone, is something else."""
    id_key: str | None = None
    name_is_key: bool = False
    type_words: tuple[str, str] = ("", "")
    """What `{type}` says of a string and of anything else; empty: the JSON type's name."""
    separator: str = "\n"
    spellings: Mapping[str, tuple[str, ...]] = _NONE
    """Other ways in which models write a literal of the template or of the section."""
    place: Place = "anywhere"
    own_lines: bool = False
    """Opener and closer count only alone on their lines."""
    opens_line: bool = False
    """The opener must end its line."""
    cdata: bool = False
    """Values may stand in <![CDATA[ ... ]]>."""
    untyped_is_text: bool = False
    """Values that no schema describes stay text; elsewhere JSON is read as JSON."""
    unique_keys: bool = False
    """An argument given twice spoils the call; elsewhere the last one counts, and that is reported."""
    bare: bool = False
    """The JSON stands without a marker of its own: only offered names make a call."""
    entries: tuple[Entry, ...] = ()
    """Readers beyond the templates, for what no template can say."""
    named_entries: tuple[Entry, ...] = ()
    """Readers that are too eager for `auto`: used only when the format is named."""
    writer: Callable[[Sequence[ToolCall]], str] | None = None
    """Writes the calls of formats that have no template."""
    aliases: tuple[str, ...] = ()
    family: str = ""
    models: str = ""
    note: str = ""
    in_auto: bool = True
    """Whether `format="auto"` looks for it."""
