"""Everything that can go wrong, by whose fault it is.

DragomanError
├─ ConfigError       UnknownProvider · UnknownModel · UnknownFormat · MissingKey · InvalidTool · CannotExpress
├─ TransportError    ConnectFailed · TimedOut · StreamCut                     (retryable)
├─ ProviderError     RateLimited · Overloaded · Unauthorized · BadRequest · ContextTooLong · Refused · ChoiceIgnored
├─ ProtocolError     the provider broke its own protocol: wire, path, raw
├─ ModelMistake      InvalidArguments                                         (goes back to the model: .to_model())
└─ ToolError         ToolFailed                                               (goes back to the model: .to_model())

A message names the thing and the place; `hint` says what to do next. No parser raises any of these for a model's
text: they are for the developer, the network, and for telling the model what was wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from dragoman.types import Fault


class DragomanError(Exception):
    """The root. `hint` is the next step for whoever reads the message."""

    hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.next_step = self.hint if hint is None else hint
        if self.next_step:
            # A traceback shows notes, and nothing else that an exception carries.
            self.add_note(f"hint: {self.next_step}")

    def explain(self) -> str:
        """The message with its hint, as a command line shows it."""
        return f"{self}\nhint: {self.next_step}" if self.next_step else str(self)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if any is close enough to be a slip of the pen."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean 'x'?`, or nothing."""
    guess = nearest(name, known)
    return f"; did you mean {guess!r}?" if guess else ""


# ---- the developer's to fix ----------------------------------------------------------------------------------------


class ConfigError(DragomanError):
    hint = "change the configuration or the arguments of the call"


class _UnknownName(ConfigError):
    kind: ClassVar[str] = "name"

    def __init__(self, name: str, known: Iterable[str] = (), *, hint: str | None = None) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        guess = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"unknown {self.kind} {name!r}{guess}", hint=hint)


class UnknownProvider(_UnknownName):
    kind = "provider"
    hint = "`dragoman providers` lists the ones that are known"


class UnknownModel(_UnknownName):
    kind = "model"
    hint = "write it as provider:model, for example ollama:qwen3"


class UnknownFormat(_UnknownName):
    kind = "format"
    hint = "`dragoman formats` lists the ones that are known"


class MissingKey(ConfigError):
    hint = "set the environment variable that the message names"


class InvalidTool(ConfigError):
    hint = 'a tool is a dict such as {"name": "...", "description": "...", "parameters": {"type": "object"}}'


class CannotExpress(ConfigError):
    """A value that a text format has no way to write, so rendering it would change it."""

    hint = "choose a format that carries JSON (hermes, fenced), or change the value"

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: {why}")


# ---- the network's -------------------------------------------------------------------------------------------------


class TransportError(DragomanError):
    hint = "try again; the request may not have arrived"


class ConnectFailed(TransportError):
    hint = "check the address and that the server is running"


class TimedOut(TransportError):
    hint = "try again, or allow more time"


class StreamCut(TransportError):
    hint = "try again; the reply ended before it was complete"


# ---- the provider's ------------------------------------------------------------------------------------------------


class ProviderError(DragomanError):
    """The endpoint answered, and the answer was no."""

    hint = "the provider's message says what it did not like"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        body: Any = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.request_id = request_id
        self.body = body


class RateLimited(ProviderError):
    hint = "wait, then try again, or lower the number of requests at once"


class Overloaded(ProviderError):
    hint = "try again later, or use another endpoint"


class Unauthorized(ProviderError):
    hint = "check the key and what it may do"


class BadRequest(ProviderError):
    hint = "the request breaks a rule of this endpoint; its message says which"


class ContextTooLong(ProviderError):
    hint = "shorten the conversation or choose a model with a larger window"


class Refused(ProviderError):
    hint = "the provider declined the content of the request"


class ChoiceIgnored(ProviderError):
    """The endpoint or its model did not keep to the tool choice."""

    hint = "choose an endpoint that holds it, or that takes grammars: local, llama.cpp, vLLM, SGLang"


class ProtocolError(DragomanError):
    """The provider broke its own protocol."""

    hint = "report it with the raw text; another endpoint for the same model may behave"

    def __init__(self, message: str, *, wire: str = "", path: str = "$", raw: str = "") -> None:
        super().__init__(f"{wire + ': ' if wire else ''}{message} at {path}")
        self.wire = wire
        self.path = path
        self.raw = raw


# ---- the model's: told to it, so that it can try again ---------------------------------------------------------------


class _ToldToModel(DragomanError):
    def to_model(self) -> str:
        """The words for the model: what was wrong, and what would be right."""
        return str(self)


class ModelMistake(_ToldToModel):
    hint = "the model is told and may try again"


class InvalidArguments(ModelMistake):
    """Carries every fault at once, so that one answer is enough to mend them all."""

    hint = "send the call again with arguments that fit the schema"

    def __init__(self, tool: str, faults: Sequence[Fault]) -> None:
        self.tool = tool
        self.faults = tuple(faults)
        super().__init__(f"arguments of {tool!r}: " + "; ".join(map(str, self.faults)))

    def to_model(self) -> str:
        lines = "\n".join(f"- {fault}" for fault in self.faults)
        return (
            f"The arguments of {self.tool!r} do not fit its schema:\n{lines}\nNothing was run. Please {self.next_step}."
        )


# ---- the tool's ----------------------------------------------------------------------------------------------------


class ToolError(_ToldToModel):
    hint = "the model is told and may choose another way"


class ToolFailed(ToolError):
    hint = "look at the tool's own error"
