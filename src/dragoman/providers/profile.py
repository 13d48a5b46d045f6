"""A Profile is a row: what a family of models brings with it, whoever serves it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any, Literal

from msgspec import Struct, field

Replay = Literal["never", "calls", "always"]

# What stands before the family's name, in ids of Bedrock, of fine-tunes, and of hosts that put the vendor first.
_region_and_vendor = re.compile(
    r"(?:(?:us|eu|apac|au|jp|ca|sa|global|us-gov)\.)?"
    r"(?:anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai|ai21|google|minimax|moonshot|moonshotai|nvidia|zai)\."
).match
_vendor = re.compile(
    r"(?:meta|databricks|nvidia|ibm|google|microsoft|snowflake|mistralai|amazon|openai|anthropic|deepseek-ai|nousresearch)-"
    r"(?=meta-|llama|claude|gemma|gemini|gpt|qwen|nemotron|granite|phi|mistral|mixtral|nova|deepseek|hermes)"
).match
_separators = re.compile(r"[-._:@+ ]+").sub
_point = re.compile(r"(?<=\d)p(?=\d)").sub


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """One family of models. `match` are regular expressions for the beginning of a plain model name."""

    name: str
    match: tuple[str, ...] = ()
    native: Literal["yes", "no", "unknown"] = "unknown"
    """Whether the family is trained for native calls."""
    format: str = ""
    """How the family writes calls as text; empty means that nothing is known."""
    formats: tuple[str, ...] = ()
    """Other text formats that its models slip into."""
    prompt_format: str = ""
    """The format that instructions teach; empty means the provider's."""
    thinking: tuple[str, ...] = ()
    """The opening and the closing tag of its reasoning, where that stands in the text."""
    thinking_field: str = ""
    """The field in which servers give its reasoning."""
    weak: bool = False
    """Too small to keep to a format by itself: it is given short instructions, and a grammar where one is taken."""
    opens_thinking: bool = False
    """The prompt template writes the opening tag: a reply begins inside the reasoning."""
    replay: Replay = "never"
    """Which assistant messages need their reasoning back. A provider that asks for more gets more."""
    schema: Literal["", "strict", "json_schema", "subset", "inlined"] = ""
    """The kind of schema that the family understands; empty means whatever the wire takes."""
    wire: str = ""
    """The wire on which it works best."""
    quirks: dict[str, Any] = field(default_factory=dict)
    wire_quirks: dict[str, dict[str, Any]] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict, name="capabilities")
    """Capabilities that cannot be told from wire and quirks."""
    notes: str = ""

    def fits(self, model: str) -> bool:
        """Whether a plain model name belongs to the family."""
        return _pattern(self.match)(model) is not None


@cache
def _pattern(alternatives: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(f"(?:{alternative})" for alternative in alternatives or (r"(?!)",))).match


UNKNOWN = Profile("unknown", match=("",))


@lru_cache(maxsize=1024)
def plain_name(model: str) -> str:
    """A model id without vendor, path and decoration: `us.anthropic.claude-opus-4-8-v1:0` is `claude-opus-4-8-v1-0`."""
    name = model.strip().lower().rstrip("/").rpartition("/")[2].removeprefix("ft:")
    found = _region_and_vendor(name)
    if found:
        name = name[found.end() :]
    name = _separators("-", _point("-", name)).strip("-")
    while found := _vendor(name):
        name = name[found.end() :]
    return name


def find(profiles: Iterable[Profile], model: str | None) -> Profile:
    """The first profile that fits, or the unknown one."""
    if not model:
        return UNKNOWN
    name = plain_name(model)
    return next((profile for profile in profiles if profile.fits(name)), UNKNOWN)
