"""The exceptions of dragoman, grouped by who can fix the cause.

DragomanError
├─ ConfigError       UnknownProvider · UnknownModel · UnknownFormat · MissingKey · InvalidTool · CannotExpress
│                    CannotSend · keywords.UnknownKeyword
├─ TransportError    ConnectFailed · TimedOut · StreamCut                     (retryable)
├─ ProviderError     RateLimited · Overloaded · Unauthorized · BadRequest · ContextTooLong · Refused · ChoiceIgnored
├─ ProtocolError     the provider violates its own protocol: wire, path, raw
├─ ModelMistake      InvalidArguments                                         (`to_model()` is the text for the model)
├─ ToolError         ToolFailed · tools.Error                                 (`to_model()` is the text for the model)
└─ agent.RunFailed · agent.approvals.ApprovalRefused · journal.JournalError · journal.audit.AuditFailed
   sandbox.SandboxMissing

A message names the thing and the place; `hint` is the next step. No parser raises an exception for the text of a
model: a parser returns what it could not read as `CallBroken` or `InvalidCall`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from dragoman.types import Fault


class DragomanError(Exception):
    """The base class. `hint` is the next step for the reader of the message; a class has a default for it."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str | None = None, command_hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint
        self.next_step = self.hint
        self.command_hint = self.next_step if command_hint is None else command_hint
        """The next step of somebody who uses the command line, if it is not that of a programmer."""
        if self.next_step:
            # A traceback shows notes, but no attributes.
            self.add_note(f"hint: {self.next_step}")

    def explain(self) -> str:
        """Return the message with its hint, as the command line prints it."""
        return f"{self}\nhint: {self.next_step}" if self.next_step else str(self)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name most similar to `name`, or None if none is similar enough to be a typing error."""
    known = list(known)
    longer = [each for each in known if len(name) >= 3 and each.startswith(name)]
    if len(longer) == 1:
        return longer[0]
    swapped = [each for each in known if each != name and sorted(each) == sorted(name)]
    if len(swapped) == 1:
        return swapped[0]
    found = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: `; did you mean 'x'?`, or an empty string."""
    guess = nearest(name, known)
    return f"; did you mean {guess!r}?" if guess else ""


# ---- errors of the developer ---------------------------------------------------------------------------------------


class ConfigError(DragomanError):
    """A setting, an argument or a file is wrong. The developer or the user can fix it."""

    hint = "change the configuration or the arguments of the call"


class _UnknownName(ConfigError):
    kind: ClassVar[str] = "name"

    def __init__(self, name: str, known: Iterable[str] = (), *, hint: str | None = None) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        guess = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"unknown {self.kind} {name!r}{guess}", hint=hint)


class UnknownProvider(_UnknownName):
    """No provider has this name. `nearest` is the most similar name."""

    kind = "provider"
    hint = "write openai, anthropic, gemini, ollama, ...; `dragoman providers` lists all of them"


class UnknownModel(_UnknownName):
    """The model is not known, or its name has no provider. `nearest` is the most similar name."""

    kind = "model"
    hint = "write it as provider:model, for example ollama:qwen3"


class UnknownFormat(_UnknownName):
    """No text format has this name. `nearest` is the most similar name."""

    kind = "format"
    hint = "`dragoman formats` lists the known formats"


class MissingKey(ConfigError):
    """An endpoint needs a key, and none was found. The message names the variable."""

    hint = "set the environment variable that the message names"


class InvalidTool(ConfigError):
    """A tool cannot be used: its name, its schema or its function is wrong."""

    hint = 'a tool is a dict such as {"name": "...", "description": "...", "parameters": {"type": "object"}}'


class CannotExpress(ConfigError):
    """A text format cannot express a value: to render it would change it."""

    hint = "choose a format that carries JSON (hermes, fenced), or change the value"

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: {why}")


class CannotSend(ConfigError):
    """An endpoint cannot take an image or a file of the user. Nothing was sent."""

    hint = "send it in another form, or choose a model that takes it"


# ---- errors of the network -----------------------------------------------------------------------------------------


class TransportError(DragomanError):
    """The request could not be sent, or the connection broke. It is safe to send most requests again."""

    hint = "try again; the request may not have arrived"


class ConnectFailed(TransportError):
    """No connection could be made."""

    hint = "check the address, and check that the server is running"


class TimedOut(TransportError):
    """The endpoint did not answer within the time limit."""

    hint = "try again, or allow more time"


class StreamCut(TransportError):
    """The connection ended before the reply did. No call of the reply counts."""

    hint = "try again; the reply ended before it was complete"


# ---- errors of the provider ----------------------------------------------------------------------------------------


class ProviderError(DragomanError):
    """The endpoint answered with an error."""

    hint = "read the provider's message: it names the reason"

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
    """The endpoint received too many requests."""

    hint = "wait and try again, or send fewer requests at the same time"


class Overloaded(ProviderError):
    """The endpoint has no capacity at the moment."""

    hint = "try again later, or use another endpoint"


class Unauthorized(ProviderError):
    """The endpoint does not accept the key."""

    hint = "check the key and its permissions"


class BadRequest(ProviderError):
    """The endpoint rejects the request."""

    hint = "the request violates a rule of this endpoint; the message names the rule"


class ContextTooLong(ProviderError):
    """The request has more tokens than the context window of the model."""

    hint = "shorten the conversation, or choose a model with a larger context window"


class Refused(ProviderError):
    """The provider declined to answer, for example because of a content filter."""

    hint = "the provider declined the content of the request"


class ChoiceIgnored(ProviderError):
    """The endpoint or its model ignored the tool choice."""

    hint = "choose an endpoint that enforces it, or one that accepts grammars: local, llama.cpp, vLLM, SGLang"


class ProtocolError(DragomanError):
    """The provider violated its own protocol."""

    hint = "report it with the raw text, or use another endpoint for the same model"

    def __init__(self, message: str, *, wire: str = "", path: str = "$", raw: str = "") -> None:
        super().__init__(f"{wire + ': ' if wire else ''}{message} at {path}")
        self.wire = wire
        self.path = path
        self.raw = raw


# ---- errors of the model: it receives the message and can try again --------------------------------------------------


class _ToldToModel(DragomanError):
    def to_model(self) -> str:
        """Return the text for the model: what was wrong, and what would be correct."""
        return str(self)


class ModelMistake(_ToldToModel):
    """The model made a mistake that it can correct. `to_model()` is the text for the model."""

    hint = "the model receives the message and may try again"


class InvalidArguments(ModelMistake):
    """The arguments of a call do not fit the schema. `faults` lists all violations, so that one retry can fix them."""

    hint = "send the call again with arguments that fit the schema"

    def __init__(self, tool: str, faults: Sequence[Fault]) -> None:
        self.tool = tool
        self.faults = tuple(faults)
        super().__init__(f"arguments of {tool!r}: " + "; ".join(map(str, self.faults)))

    def to_model(self) -> str:
        """Return the text for the model: the tool, and every violation of its schema."""
        lines = "\n".join(f"- {fault}" for fault in self.faults)
        return (
            f"The arguments of {self.tool!r} do not fit its schema:\n{lines}\nNothing was run. Please {self.next_step}."
        )


# ---- errors of a tool ----------------------------------------------------------------------------------------------


class ToolError(_ToldToModel):
    """A tool could not do its work. `to_model()` is the text for the model."""

    hint = "the model receives the message and may try something else"


class ToolFailed(ToolError):
    """A tool raised an exception."""

    hint = "read the error of the tool"
