"""The scrubber, redaction of nested values, and the sinks for models and for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, overload

from dragoman.errors import DragomanError
from dragoman.secrets.fields import Weight, is_secret, is_secret_number, kind_of, weigh_key, weigh_member, weigh_table
from dragoman.secrets.registered import RegisteredStage, Restored, Secrets, Vault, worth_hiding
from dragoman.secrets.scanner import RuleStage, may_hide
from dragoman.secrets.spans import Render, get_style

# --------------------------------------------------------------------------------------------------------------------
# Redaction of lists and mappings: every string in them, and the values under secret keys.

_DEEPEST: Final = 200

ScrubText = Callable[[str], str]
KnownSecrets = Iterable[str] | Mapping[str, str] | Secrets
"""Values that are known beforehand, by name if a mapping."""


def scrub_structure(value: Any, scrub_text: ScrubText, show: Render, *, eager: bool = False) -> Any:
    """Return a copy of a JSON value with its secrets hidden. `eager` hides everything under a secret key."""
    return _Walk(scrub_text, show, eager).value(value, "", "", 0)


class _Walk:
    """Goes through a value. `table` is the name of the secret object around a field, such as `credentials`."""

    def __init__(self, scrub_text: ScrubText, show: Render, eager: bool) -> None:
        self._scrub_text = scrub_text
        self._show = show
        self._eager = eager

    def value(self, value: Any, key: str, table: str, depth: int) -> Any:
        if isinstance(value, str):
            if self._is_hidden(key, table, value):
                return self._show(_kind(key, table), value, False)
            return self._scrub_text(value)
        if depth >= _DEEPEST:
            return "[too deep]" if isinstance(value, dict | list | tuple) else value
        if isinstance(value, dict):
            inside = key if weigh_table(key) >= Weight.SECRET else table
            return {
                self._scrub_text(name) if isinstance(name, str) else name: self.value(
                    inner, name if isinstance(name, str) else "", inside, depth + 1
                )
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            walked = [self.value(inner, key, table, depth + 1) for inner in value]
            return walked if isinstance(value, list) else tuple(walked)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and is_secret_number(key, str(value), weigh_member(key, table)):
            return self._show(_kind(key, table), str(value), False)
        return value

    def _is_hidden(self, key: str, table: str, value: str) -> bool:
        weight = weigh_member(key, table) if key or table else Weight.NONE
        if self._eager:
            return weight >= Weight.SECRET and bool(value) and "[REDACTED]" not in value
        if value.isdigit() and is_secret_number(key, value, weight):
            return True
        return is_secret(weight, value, quoted=True, literal=True)


def _kind(key: str, table: str) -> str:
    return kind_of(key if weigh_key(key) or not table else table)


# --------------------------------------------------------------------------------------------------------------------
# The scrubber: known secrets first, then the rules, whole or in pieces.


class Scrubber:
    """Hides secrets in text that comes in pieces. Any way of cutting the text gives the same result.

    `secrets` are values known beforehand, by name if a mapping: they are found in all their encodings. With a `vault`
    every hidden value gets a placeholder of its own, for which the vault can put the value back.
    """

    def __init__(
        self,
        secrets: KnownSecrets = (),
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
def scrub(text: str, *, style: str = "kind", secrets: KnownSecrets = ()) -> str: ...
@overload
def scrub(text: Any, *, style: str = "kind", secrets: KnownSecrets = ()) -> Any: ...
def scrub(text: Any, *, style: str = "kind", secrets: KnownSecrets = ()) -> Any:
    """Hide the secrets of a text: API keys, tokens, passwords, private keys.

    `style="kind"` shows `[redacted:github_token]`; `style="seed"` keeps the first four characters, `ghp_*[REDACTED]`.
    A list or a mapping is scrubbed value by value, and the result has the same shape. Bytes are scrubbed as UTF-8.
    """
    if isinstance(text, bytes):
        shown = scrub(text.decode("utf-8", "surrogateescape"), style=style, secrets=secrets)
        return shown.encode("utf-8", "surrogateescape")
    if isinstance(text, str):
        scrubber = Scrubber(secrets, style)
        return scrubber.feed(text) + scrubber.close()
    known = secrets if isinstance(secrets, Secrets) else Secrets(_as_secrets(secrets))
    seed = style == "seed"
    show = (lambda kind, value, bare: "[REDACTED]") if seed else get_style(style)
    return scrub_structure(text, partial(scrub, style=style, secrets=known), show, eager=seed)


def _as_secrets(secrets: Iterable[str] | Mapping[str, str]) -> Iterable[str] | Mapping[str, str]:
    if isinstance(secrets, str):
        raise DragomanError("`secrets` is a single string", hint="pass a list of strings: Scrubber(secrets=[value])")
    return secrets


# --------------------------------------------------------------------------------------------------------------------
# The two readers of what tools print: the model, which may have to write it back, and people with their logs.


class _Sink:
    """What both of them do: hide the secrets of a text, whole or in pieces, or of a value."""

    def __init__(self, secrets: KnownSecrets, style: str, vault: Vault | None) -> None:
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)
        self._style = style
        self._vault = vault
        self._show = get_style(style) if vault is None else vault.hide

    def stream(self) -> Scrubber:
        """A scrubber for a text that comes in pieces."""
        return Scrubber(self._secrets, self._style, vault=self._vault)

    def text(self, text: str) -> str:
        """The text with its secrets hidden."""
        if self._style == "kind" and not may_hide(text, self._secrets):
            return text
        scrubber = self.stream()
        return scrubber.feed(text) + scrubber.close()

    def value(self, value: Any) -> Any:
        """A copy of a value of lists and mappings with its secrets hidden."""
        return scrub_structure(value, self.text, self._show)

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Where the secrets of the text stand: start, end and kind."""
        if not may_hide(text, self._secrets):
            return []
        vault = Vault(_unused_tag(text))
        scrubber = Scrubber(self._secrets, vault=vault)
        return vault.locate(scrubber.feed(text) + scrubber.close())

    def knows(self, value: str) -> bool:
        """Whether the value is a known secret, exactly as it was registered."""
        return value in self._secrets.values


def _unused_tag(text: str) -> str:
    """A tag that no placeholder in the text has."""
    tag = "x"
    while f"#{tag}-" in text:
        tag += "x"
    return tag


class HumanSink(_Sink):
    """For logs, events, approvals and errors. What is hidden here is gone for good."""

    def __init__(self, secrets: KnownSecrets = (), style: str = "kind") -> None:
        super().__init__(secrets, style, None)

    @property
    def longest(self) -> int:
        """The length of the longest form of a known secret: so much of one may stand across a cut."""
        return self._secrets.longest

    def registered(self) -> RegisteredStage | None:
        """What hides the known secrets alone, with little held back; None where none is known."""
        return RegisteredStage(self._secrets, self._show) if self._secrets else None

    def known_spans(self, text: str) -> list[tuple[int, int, str]]:
        """Where the known secrets of the text stand: start, end and kind."""
        if not self._secrets.may_occur(text):
            return []
        vault = Vault(_unused_tag(text))
        stage = RegisteredStage(self._secrets, vault.hide)
        return vault.locate(stage.feed(text) + stage.close())

    def hides(self, text: str) -> bool:
        """Whether the text would be shown with something hidden: an approval has to say so."""
        return self.text(text) != text


class ModelSink(_Sink):
    """For the results that go to the model, with a placeholder for each secret.

    A tool that writes puts the hidden values back with `restore`.
    """

    def __init__(self, secrets: KnownSecrets = (), vault: Vault | None = None) -> None:
        self.vault = Vault() if vault is None else vault
        super().__init__(secrets, "kind", self.vault)

    def restore(self, text: str) -> Restored:
        """The text with the hidden values put back, exactly as they were."""
        return self.vault.restore(text)


def known_secrets(values: Mapping[str, str | None]) -> Secrets:
    """The values of a configuration or an environment that are secrets, by name; stand-ins are left out."""
    return Secrets({name: value for name, value in values.items() if value is not None and worth_hiding(value)})
