"""The scrubber: known secrets first, then the rules, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, overload

from dragoman.errors import DragomanError
from dragoman.scrubbing.registered import RegisteredStage, Secrets
from dragoman.scrubbing.ruling import RuleStage
from dragoman.scrubbing.structures import scrub_structure
from dragoman.scrubbing.styles import get_style
from dragoman.scrubbing.vault import Vault


class Scrubber:
    """Hides secrets in text that comes in pieces. Any way of cutting the text gives the same result.

    `secrets` are values known beforehand, by name if a mapping: they are found in all their encodings. With a `vault`
    every hidden value gets a placeholder of its own, for which the vault can put the value back.
    """

    def __init__(
        self,
        secrets: Iterable[str] | Mapping[str, str] | Secrets = (),
        style: str = "kind",
        *,
        vault: Vault | None = None,
    ) -> None:
        known = secrets if isinstance(secrets, Secrets) else Secrets(_as_secrets(secrets))
        render = get_style(style) if vault is None else vault.hide
        extend = len if vault is None else vault.extend
        self._known = RegisteredStage(known, render) if known else None
        self._rules = RuleStage(render, seed=style == "seed", extend=extend)
        self._closed = False

    def feed(self, piece: str) -> str:
        """Take a piece of text; returns what can be shown by now."""
        if self._closed:
            raise DragomanError("the scrubber is closed", hint="make a new Scrubber for the next text")
        if self._known is not None:
            piece = self._known.feed(piece)
        return self._rules.feed(piece) if piece else ""

    def close(self) -> str:
        """The text has ended: returns the rest of it."""
        if self._closed:
            return ""
        self._closed = True
        rest = self._known.close() if self._known is not None else ""
        return (self._rules.feed(rest) if rest else "") + self._rules.close()


@overload
def scrub(text: str, *, style: str = "kind", secrets: Iterable[str] | Mapping[str, str] | Secrets = ()) -> str: ...
@overload
def scrub(text: Any, *, style: str = "kind", secrets: Iterable[str] | Mapping[str, str] | Secrets = ()) -> Any: ...
def scrub(text: Any, *, style: str = "kind", secrets: Iterable[str] | Mapping[str, str] | Secrets = ()) -> Any:
    """Hide the secrets of a text: API keys, tokens, passwords, private keys.

    `style="kind"` shows `[redacted:github_token]`; `style="seed"` keeps the first four characters, `ghp_*[REDACTED]`.
    A list or a mapping is scrubbed value by value, and the result has the same shape.
    """
    if isinstance(text, str):
        scrubber = Scrubber(secrets, style)
        return scrubber.feed(text) + scrubber.close()
    known = secrets if isinstance(secrets, Secrets) else Secrets(_as_secrets(secrets))
    seed = style == "seed"
    show = _wholly if seed else get_style(style)
    return scrub_structure(text, partial(scrub, style=style, secrets=known), show, eager=seed)


def _wholly(kind: str, value: str, bare: bool = False) -> str:
    return "[REDACTED]"


def _as_secrets(secrets: Iterable[str] | Mapping[str, str]) -> Iterable[str] | Mapping[str, str]:
    if isinstance(secrets, str):
        raise DragomanError("`secrets` is a single string", hint="pass a list of strings: Scrubber(secrets=[value])")
    return secrets
