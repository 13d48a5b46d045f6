"""The two readers of what tools print: the model, which may have to write it back, and people with their logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.scrubbing.registered import RegisteredStage, Secrets, worth_hiding
from dragoman.scrubbing.scrubber import Scrubber
from dragoman.scrubbing.structures import scrub_structure
from dragoman.scrubbing.styles import get_style
from dragoman.scrubbing.suspicion import may_hide
from dragoman.scrubbing.vault import Restored, Vault


class HumanSink:
    """For logs, events, approvals and errors. What is hidden here is gone for good."""

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] | Secrets = (), style: str = "kind") -> None:
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)
        self._style = style
        self._show = get_style(style)

    @property
    def longest(self) -> int:
        """The length of the longest form of a known secret: so much of one may stand across a cut."""
        return self._secrets.longest

    def stream(self) -> Scrubber:
        """A scrubber for a text that comes in pieces."""
        return Scrubber(self._secrets, self._style)

    def registered(self) -> RegisteredStage | None:
        """What hides the known secrets alone, with little held back; None where none is known."""
        return RegisteredStage(self._secrets, self._show) if self._secrets else None

    def text(self, text: str) -> str:
        """The text with its secrets hidden."""
        if self._style == "kind" and not may_hide(text, self._secrets):
            return text
        scrubber = self.stream()
        return scrubber.feed(text) + scrubber.close()

    def value(self, value: Any) -> Any:
        """A copy of a value of lists and mappings with its secrets hidden."""
        return scrub_structure(value, self.text, self._show)

    def hides(self, text: str) -> bool:
        """Whether the text would be shown with something hidden: an approval has to say so."""
        return self.text(text) != text


class ModelSink:
    """For the results that go to the model. A tool that writes puts the hidden values back with `restore`."""

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] | Secrets = (), vault: Vault | None = None) -> None:
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)
        self.vault = Vault() if vault is None else vault

    def stream(self) -> Scrubber:
        """A scrubber for a text that comes in pieces."""
        return Scrubber(self._secrets, vault=self.vault)

    def text(self, text: str) -> str:
        """The text with a placeholder for each secret."""
        if not may_hide(text, self._secrets):
            return text
        scrubber = self.stream()
        return scrubber.feed(text) + scrubber.close()

    def value(self, value: Any) -> Any:
        """A copy of a value of lists and mappings with a placeholder for each secret."""
        return scrub_structure(value, self.text, self.vault.hide)

    def restore(self, text: str) -> Restored:
        """The text with the hidden values put back, exactly as they were."""
        return self.vault.restore(text)


def known_secrets(values: Mapping[str, str | None]) -> Secrets:
    """The values of a configuration or an environment that are secrets, by name; stand-ins are left out."""
    return Secrets({name: value for name, value in values.items() if value is not None and worth_hiding(value)})
