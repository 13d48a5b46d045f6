"""What a wire demands of a conversation, as one row of answers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.wire.aliases import FREE_IDS, PLAIN_NAMES, IdRule, NameRule


class HistoryRules(Struct, frozen=True):
    """What one wire demands of a conversation."""

    wire: str
    names: NameRule = PLAIN_NAMES
    ids: IdRule = FREE_IDS
    system: Literal["anywhere", "first", "front"] = "anywhere"
    """`first`: later ones become labelled user text. `front`: the first ones too are apart, in `History.system`."""
    result_images: bool = False
    result_files: bool = False
    text_after_calls: bool = False
    """Whether text may stand behind a call in one assistant message."""
    keeps_empty_text: bool = False
    first_user: bool = False
    """The conversation must begin with the user."""
    merges: bool = False
    """Neighbouring user messages, and neighbouring assistant messages, become one."""
    bridges_results: bool = False
    thinking: bool = True
    """Whether the wire can carry reasoning at all."""
    error_flags: bool = True
    """Whether a result can say that it is an error; where it cannot, the text says it."""
