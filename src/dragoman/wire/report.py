"""What a translation could not carry over, or had to change: the report that comes with every encoded request."""

from __future__ import annotations

from msgspec import Struct


class Loss(Struct, frozen=True, gc=False):
    """One thing that was changed, moved or left out on the way to a wire.

    `rule` is the stable name of what was done (`dropped`, `inlined`, `renamed`, ...), `where` names the thing
    (`tool search`, `message 3`), `detail` says it in words.
    """

    rule: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}"
