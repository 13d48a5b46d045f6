"""The nouns: what a conversation, a tool and a call are, whoever wrote them.

Everything here is plain frozen data. A codec, a parser, the loop and the gateway all speak in these, and nothing
in this file knows a provider. What only one provider understands (signatures, encrypted reasoning) rides in
`part.extra[wire_name]`, and only that wire's codec reads it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict

from msgspec import Struct, field
from msgspec.structs import force_setattr

JsonObject = dict[str, Any]
"""A decoded JSON object. `Any` is honest here: what stands in it is the model's choice."""

# Names that the library, the settings and the command line share.
ModeName = Literal["plan", "locked", "default", "edits", "sandboxed", "bypass"]
ToolModeName = Literal["auto", "native", "text"]
TrustName = Literal["strict", "default", "compat"]
SandboxName = Literal["auto", "bubblewrap", "landlock", "none"]

Role = Literal["system", "user", "assistant", "tool"]
InvalidKind = Literal["malformed", "truncated", "unknown_tool", "bad_arguments"]
StopReason = Literal["end", "tool_calls", "length", "stop_sequence", "refusal", "pause", "error", "unknown"]


class Change(Struct, frozen=True):
    """One argument that was changed so that it fits the schema: where, by which rule, from what, to what."""

    path: str
    rule: str
    """A name of `dragoman.args.COERCIONS`, or of a repair of the text inside an argument."""
    before: Any
    after: Any


class Fault(Struct, frozen=True):
    """One way in which arguments break their schema, with the JSON path of the place."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Provenance(Struct, frozen=True):
    """Where a call was found, so that a caller can decide how far to trust it."""

    channel: str = "text"
    """`native` (a field of the wire) or `text` (read out of what the model wrote)."""
    format: str = ""
    """The name of the text format, or of the wire."""
    span: tuple[int, int] = (0, 0)
    """Code-point offsets [start, end) in the text as received."""
    region: str = "answer"
    """`answer`, `message` (the call is the whole message), `thinking`, or a loose region such as `prose` or `fence`."""
    level: str | None = None
    """T5 .. T0, set by whoever judges trust."""
    verdict: str | None = None
    """`allow` or `ask`, set by whoever judges trust."""


class ToolCall(Struct, frozen=True, tag="call"):
    """A call as the model meant it, and an honest account of what was done to read it."""

    id: str
    name: str
    arguments: JsonObject
    complete: bool = True
    known_tool: bool | None = None
    """Whether the name was offered; None when no tools were given to compare with."""
    repairs: tuple[str, ...] = ()
    """Names of `dragoman.args.REPAIRS`."""
    changes: tuple[Change, ...] = ()
    provenance: Provenance | None = None
    raw: str = ""
    """The text the call was read from, wrapper included."""
    extra: dict[str, Any] = field(default_factory=dict)
    wire_id: str | None = None
    """The id as it stood on the wire; None where the wire gave none and `id` was made here."""


class InvalidCall(Struct, frozen=True, tag="invalid_call"):
    """A call whose arguments cannot be understood: nothing runs, and the model is told every fault."""

    id: str
    name: str
    raw: str
    faults: tuple[Fault, ...]
    provenance: Provenance | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    wire_id: str | None = None
    kind: InvalidKind = "malformed"


class Text(Struct, frozen=True, tag="text"):
    text: str
    extra: dict[str, Any] = field(default_factory=dict)


class Thinking(Struct, frozen=True, tag="thinking"):
    text: str
    extra: dict[str, Any] = field(default_factory=dict)


class PathLike(Protocol):
    """A path object, such as one of `pathlib`."""

    def __fspath__(self) -> str: ...


# How base64 of the common kinds begins.
_BEGINNINGS = (
    ("iVBOR", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi", "application/pdf"),
)


def find_media_type(data: str) -> str | None:
    """The media type of base64 data that came without one, by its first bytes."""
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), None)


def _encode_data(part: Image | File) -> None:
    """Bytes as the base64 text that every wire carries."""
    if isinstance(part.data, bytes | bytearray | memoryview):
        data = b64encode(part.data).decode()
        force_setattr(part, "data", data)
        if part.media_type is None:
            force_setattr(part, "media_type", find_media_type(data))


_BY_ENDING = {
    **{ending: f"image/{ending}" for ending in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "heic")},
    **{ending: f"text/{ending}" for ending in ("csv", "html", "xml", "css")},
    **{"jpg": "image/jpeg", "svg": "image/svg+xml", "txt": "text/plain", "md": "text/markdown"},
    **{"pdf": "application/pdf", "json": "application/json", "mp4": "video/mp4", "webm": "video/webm"},
    **{"wav": "audio/wav", "mp3": "audio/mpeg", "ogg": "audio/ogg", "flac": "audio/flac", "m4a": "audio/mp4"},
}


def _read_path(path: Any, media_type: str | None) -> tuple[str, bytes, str]:
    """The name, the content and the media type of a file that the caller named: the only place here that reads one."""
    with open(path, "rb") as file:
        data = file.read()
    name = str(path).replace("\\", "/").rpartition("/")[2]
    return name, data, media_type or _BY_ENDING.get(name.rpartition(".")[2].lower(), "application/octet-stream")


class Image(Struct, frozen=True, tag="image"):
    """An image by address, or by its data (bytes, or base64 text) with its media type."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _encode_data(self)

    @classmethod
    def from_path(cls, path: str | PathLike, media_type: str | None = None) -> Image:
        """The image in a file; its media type is that of its name unless it is given."""
        _, data, kind = _read_path(path, media_type)
        if not kind.startswith("image/"):
            raise ValueError(f"{path} is no image by its name ({kind}): give the media_type, or use File.from_path")
        return cls(data=b64encode(data).decode(), media_type=kind)


class File(Struct, frozen=True, tag="file"):
    """A document or a recording by address, or by its data (bytes, or base64 text) with its media type."""

    name: str
    data: str | None = None
    url: str | None = None
    media_type: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _encode_data(self)

    @classmethod
    def from_path(cls, path: str | PathLike, media_type: str | None = None) -> File:
        """The content of a file under its name; its media type is that of its name unless it is given."""
        name, data, kind = _read_path(path, media_type)
        return cls(name, b64encode(data).decode(), None, kind)


class ToolResult(Struct, frozen=True, tag="result"):
    """What a tool answered. `content` is for the model, `data` for the caller."""

    call_id: str
    name: str = ""
    content: str | list[Text | Image | File] = ""
    is_error: bool = False
    data: Any = None
    extra: dict[str, Any] = field(default_factory=dict)


Part = Text | Thinking | Image | File | ToolCall | InvalidCall | ToolResult


class Message(Struct, frozen=True):
    """One message of a conversation. A text in place of the parts becomes a single `Text`."""

    role: Role
    parts: list[Part] = []
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, list):
            force_setattr(self, "parts", _as_parts(self.parts))

    @classmethod
    def system(cls, *content: str | Part) -> Message:
        """A message with instructions."""
        return cls("system", _as_parts(content))

    @classmethod
    def user(cls, *content: str | Part) -> Message:
        """A message of the user: texts, images and files."""
        return cls("user", _as_parts(content))

    @classmethod
    def assistant(cls, *content: str | Part) -> Message:
        """A message of the model."""
        return cls("assistant", _as_parts(content))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))


def _as_parts(content: Any) -> list[Part]:
    given = [content] if isinstance(content, str) else list(content)
    return [Text(each) if isinstance(each, str) else each for each in given]


class Usage(Struct, frozen=True):
    """Tokens of one reply. `input_tokens` and `output_tokens` are totals: the other counts are contained in them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0


FailureKind = Literal[
    "rate_limited",
    "overloaded",
    "unauthorized",
    "bad_request",
    "context_too_long",
    "refused",
    "not_found",
    "timed_out",
    "stream_cut",
    "server_error",
    "unreachable",
    "insecure",
    "broken_protocol",
    "too_large",
]


FAILURE_CAUSES: dict[FailureKind, Literal["request", "endpoint", "rate", "outage"]] = {
    "bad_request": "request",
    "unauthorized": "request",
    "refused": "request",
    "context_too_long": "request",
    "not_found": "endpoint",
    "insecure": "endpoint",
    "broken_protocol": "endpoint",
    "too_large": "endpoint",
    "rate_limited": "rate",
    "overloaded": "outage",
    "timed_out": "outage",
    "stream_cut": "outage",
    "server_error": "outage",
    "unreachable": "outage",
}
"""What each kind is about, and so what may help.

`request`: its content or its key; only another request helps. `endpoint`: another endpoint may help. `rate`: waiting
helps, and the endpoint is well. `outage`: waiting or another endpoint may help, and the circuit breaker counts it.
"""

TRANSIENT_FAILURES: frozenset[FailureKind] = frozenset(
    kind for kind, cause in FAILURE_CAUSES.items() if cause in ("rate", "outage")
)
"""Kinds that another attempt may overcome: the client retries them, and a run that ends with one can be resumed."""


class Failure(Struct, frozen=True):
    """Why a reply ended in an error, in one vocabulary for all providers.

    The last four kinds are the connection's: nobody answered, the certificate is not to be trusted, the answer is no
    HTTP or not of this wire, it is larger than we are willing to hold.
    """

    kind: FailureKind
    message: str = ""
    status: int | None = None
    code: str = ""
    """The provider's own name for it."""
    retry_after: float | None = None
    body: Any = None


class Tool(Struct, frozen=True):
    """A tool as it is offered to a model; `run` is what happens when it is called."""

    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=dict)
    run: Callable[..., Any] | None = None
    parallel_safe: bool = False
    read_only: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    repeatable: bool = False
    """Whether running it again with the same arguments does no harm."""
    timeout: float | None = None
    """Seconds that one call may take; None leaves it to whoever runs it."""
    max_output: int | None = None
    """Characters of a result that the model is shown; None leaves it to whoever runs it."""
    requires_approval: bool = False
    context_parameter: str | None = None
    """The parameter of the function that is hidden from the model and takes the context of the call."""
    inspect: Callable[..., Any] | None = None
    """`inspect(arguments, context)` gives the operands of a call (`dragoman.types`) without doing anything."""


class NeutralOptions(TypedDict, total=False):
    """Options of a request under names that are the same for every wire."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    presence_penalty: float
    frequency_penalty: float
    stop: str | list[str]
    tool_choice: Any
    """"auto", "none", "required", {"name": "search"}, or {"mode": "required", "names": [...]}."""
    parallel_tool_calls: bool
    """False asks for at most one call in a reply."""
    parallel: bool
    """The short name of `parallel_tool_calls`."""
    reasoning: Any
    """{"effort": "high"}, {"budget": 2048}, {"enabled": False}, also "summary"."""
    response_format: JsonObject
    """{"type": "json"}, or {"type": "json_schema", "schema": {...}, "name": "...", "strict": True}."""
    stream: bool
    cache: bool | str
    """True marks what a prompt cache shall keep, where the wire has markers; "1h" for the long one."""
    user: str
    metadata: JsonObject


class RequestOptions(NeutralOptions, total=False):
    """The options of a request: the neutral ones, and under the name of a wire the fields that only this wire has.

    `anthropic={"service_tier": "auto"}` is sent to that wire alone.
    """

    openai_chat: JsonObject
    openai_responses: JsonObject
    anthropic: JsonObject
    gemini: JsonObject
    ollama: JsonObject
    bedrock: JsonObject
    mistral: JsonObject
    cohere: JsonObject


class Request(Struct, frozen=True):
    """What is asked of a model. `RequestOptions` lists the names in `options`."""

    model: str
    messages: list[Message] = []
    tools: list[Tool] = []
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The short name of an option; from here on there is one name for it.
        if "parallel" in self.options:
            options = {"parallel_tool_calls": self.options["parallel"], **self.options}
            del options["parallel"]
            force_setattr(self, "options", options)


class Reply(Struct, frozen=True):
    message: Message
    usage: Usage = Usage()
    stop: StopReason = "unknown"
    extra: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    id: str = ""
    failure: Failure | None = None
    """Set when the reply ended in an error: what arrived before it is kept, and none of it is a complete call."""

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that may be run, as far as reading them decides it."""
        return [part for part in self.message.parts if isinstance(part, ToolCall) and part.complete]

    @property
    def invalid(self) -> list[InvalidCall]:
        return [part for part in self.message.parts if isinstance(part, InvalidCall)]


# --------------------------------------------------------------------------------------------------------------------
# What a call is about, outside the call itself: the file it would change, the command it would run, the address.
#
# A tool that has an `inspect` function says this before the call is decided on, and again right before it runs. Rules
# match operands, and an approval holds for exactly these.

OperandKind = Literal["path", "command", "url"]
Access = Literal["read", "write", "run", "send"]


class Operand(Struct, frozen=True):
    """One thing that a call is about, as it is at this moment."""

    kind: OperandKind
    value: str
    """As rules see it: a path relative to the workspace (absolute if it lies outside), a command line, an address."""
    access: Access = "read"
    real: str = ""
    """Where it really is: the path with every link followed, the address with its host in normal form."""
    inside: bool = True
    """Whether it lies in the workspace; of an address, whether it is a public one as far as its spelling tells."""
    protected: bool = False
    """Whether changing it would change what is trusted later: hooks of git, our own settings, start-up files."""
    identity: str = ""
    """Device and inode; empty where there is nothing yet."""
    digest: str = ""
    """SHA-256 of the content, of files that would be edited, overwritten or run; empty where there is none."""
