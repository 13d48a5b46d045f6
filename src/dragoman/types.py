"""The core types: messages, tools, calls, results, requests and replies, the same for every provider.

All types are frozen data. Codecs, parsers and the agent loop exchange them, and nothing in this module depends on a
provider. Data that only one provider understands (signatures, encrypted reasoning) is in `part.extra[wire_name]`, and
only the codec of that wire reads it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct, field
from msgspec.structs import force_setattr

from dragoman.file_content import FilePath, ReadablePath, read_file
from dragoman.media import check_size, find_type, recognise

JsonObject = dict[str, Any]
"""A decoded JSON object. The type is `Any`, because the model chooses the content."""

# Names that the library, the settings and the command line share.
ModeName = Literal["plan", "locked", "default", "edits", "sandboxed", "bypass"]
"""The permission modes, from the strictest to the loosest."""
ToolModeName = Literal["auto", "native", "text"]
"""How a model receives tools: as native definitions, or as text in the prompt. `auto` decides by the endpoint."""
TrustName = Literal["strict", "default", "compat"]
"""The trust profiles, from the strictest to the loosest."""
SandboxName = Literal["auto", "bubblewrap", "landlock", "none"]
"""The sandboxes that a setting can name. `auto` takes the first one that works on the machine."""

Role = Literal["system", "user", "assistant", "tool"]
"""Who wrote a message."""
InvalidKind = Literal["malformed", "truncated", "unknown_tool", "bad_arguments"]
"""Why a call cannot run."""
StopReason = Literal["end", "tool_calls", "length", "stop_sequence", "refusal", "pause", "error", "unknown"]
"""Why a model stopped. Each wire maps its own words to these."""


class Change(Struct, frozen=True):
    """One argument that coercion converted to fit the schema: its path, the rule, the old and the new value."""

    path: str
    rule: str
    """A name in `dragoman.args.COERCIONS`, or the name of a repair of the text inside an argument."""
    before: Any
    after: Any


class Fault(Struct, frozen=True):
    """One violation of the schema by the arguments, with its JSON path."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Provenance(Struct, frozen=True):
    """Where a call was found, so that a caller can decide how far to trust it."""

    channel: str = "text"
    """`native` (a field of the wire) or `text` (parsed from the text of the model)."""
    format: str = ""
    """The name of the text format, or of the wire."""
    span: tuple[int, int] = (0, 0)
    """Code-point offsets [start, end) in the text as received."""
    region: str = "answer"
    """`answer`, `message` (the call is the whole message), `thinking`, `quote`, `fence`, `code`, `comment`, `table`,
    `string`, or a loose region such as `prose`."""
    level: str | None = None
    """The trust level, T5 to T0. `dragoman.extraction` sets it."""
    verdict: str | None = None
    """`allow` or `ask`. `dragoman.extraction` sets it."""
    why: str = ""
    """The reason for `ask`."""


class ToolCall(Struct, frozen=True, tag="call"):
    """A call as the model meant it, with every repair and change that was needed to read it."""

    id: str
    name: str
    arguments: JsonObject
    complete: bool = True
    known_tool: bool | None = None
    """Whether the name was offered; None if no tools were given."""
    repairs: tuple[str, ...] = ()
    """Names in `dragoman.args.REPAIRS`."""
    changes: tuple[Change, ...] = ()
    provenance: Provenance | None = None
    raw: str = ""
    """The text of the call, wrapper included."""
    extra: dict[str, Any] = field(default_factory=dict)
    wire_id: str | None = None
    """The id on the wire; None if the wire gave none and dragoman generated `id`."""


class InvalidCall(Struct, frozen=True, tag="invalid_call"):
    """A call that cannot run: malformed, truncated, unknown, or with invalid arguments. The model receives `faults`."""

    id: str
    name: str
    raw: str
    faults: tuple[Fault, ...]
    provenance: Provenance | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    wire_id: str | None = None
    kind: InvalidKind = "malformed"

    # A program that lists calls reads these of every call.

    @property
    def arguments(self) -> None:
        """None, because no arguments could be used. `raw` is what the model wrote."""

    @property
    def repairs(self) -> tuple[str, ...]:
        """Empty, because nothing was repaired."""
        return ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """Empty, because nothing was changed."""
        return ()


class Text(Struct, frozen=True, tag="text"):
    """A part of a message that people read.

    `extra` holds data that only a wire understands, by the name of the wire.
    """

    text: str
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_refusal(self) -> bool:
        """Whether a wire marks the text as a refusal."""
        return bool(self.extra) and any(isinstance(own, dict) and own.get("refusal") for own in self.extra.values())


class Thinking(Struct, frozen=True, tag="thinking"):
    """The reasoning of a model. `extra` holds data that only its wire understands, such as a signature."""

    text: str
    extra: dict[str, Any] = field(default_factory=dict)


Data = str | bytes | bytearray | memoryview
"""The data of an image or file: bytes, or base64 text."""


def _encode_data(part: Image | File) -> None:
    """Bytes as the base64 text that every wire carries, with the media type that they show."""
    if not isinstance(part.data, bytes | bytearray | memoryview):
        if isinstance(part.data, str) and part.data.startswith("data:") and not part.url:
            # The address form of the same data.
            force_setattr(part, "url", part.data)
            force_setattr(part, "data", None)
        return
    content = bytes(part.data)
    what = f"the file {part.name!r}" if isinstance(part, File) else "the image"
    check_size(content, what)
    if part.media_type is None:
        name = part.name if isinstance(part, File) else ""
        kind = find_type(content) if isinstance(part, Image) else recognise(content, name)
        if isinstance(part, Image) and kind and not kind.startswith("image/"):
            raise ValueError(f"the data is no image, but {kind}: use File(name, data)")
        force_setattr(part, "media_type", kind or None)
    force_setattr(part, "data", b64encode(content).decode())


class Image(Struct, frozen=True, tag="image"):
    """An image by address, or by its data (bytes, or base64 text) with its media type."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(
            self,
            url: str | None = None,
            data: Data | None = None,
            media_type: str | None = None,
            extra: dict[str, Any] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        _encode_data(self)

    @classmethod
    def from_path(cls, path: str | FilePath | ReadablePath, media_type: str | None = None) -> Image:
        """The image in a file: `Image.from_path("a.png")`. Its media type is that of its content, unless it is given.

        Raises OSError if the file cannot be read, and ValueError if it is empty, too large or no image.
        """
        name, content = read_file(path)
        kind = media_type or recognise(content, name)
        if not kind.startswith("image/"):
            raise ValueError(f"{path} is no image ({kind}): use File.from_path, or dragoman.attach for any file")
        return cls(data=content, media_type=kind)


class File(Struct, frozen=True, tag="file"):
    """A document or a recording by address, or by its data (bytes, or base64 text) with its media type."""

    name: str
    data: str | None = None
    url: str | None = None
    media_type: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            data: Data | None = None,
            url: str | None = None,
            media_type: str | None = None,
            extra: dict[str, Any] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        _encode_data(self)

    @classmethod
    def from_path(cls, path: str | FilePath | ReadablePath, media_type: str | None = None) -> File:
        """The content of a file under its name: `File.from_path("a.pdf")`.

        Its media type is that of its content, or of its name where the content leaves it open. Raises OSError if the
        file cannot be read, and ValueError if it is empty or too large.
        """
        name, content = read_file(path)
        return cls(name, content, None, media_type or recognise(content, name))


class ToolResult(Struct, frozen=True, tag="result"):
    """The result of a tool call. `content` is for the model, `data` for the caller."""

    call_id: str
    name: str = ""
    content: str | list[Text | Image | File] = ""
    is_error: bool = False
    data: Any = None
    extra: dict[str, Any] = field(default_factory=dict)


Part = Text | Thinking | Image | File | ToolCall | InvalidCall | ToolResult
"""A part of a message."""


class Message(Struct, frozen=True):
    """One message of a conversation. A string instead of the parts becomes a single `Text`."""

    role: Role
    parts: list[Part] = []
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, list):
            force_setattr(self, "parts", _as_parts(self.parts))

    @classmethod
    def system(cls, *content: str | Part) -> Message:
        """Return a message with instructions."""
        return cls("system", _as_parts(content))

    @classmethod
    def user(cls, *content: str | Part) -> Message:
        """Return a message of the user: texts, images and files."""
        return cls("user", _as_parts(content))

    @classmethod
    def assistant(cls, *content: str | Part) -> Message:
        """Return a message of the model."""
        return cls("assistant", _as_parts(content))

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


def _as_parts(content: Any) -> list[Part]:
    if not isinstance(content, Iterable):
        raise TypeError(f"the content of a message is text or parts, not {type(content).__name__}")
    given = [content] if isinstance(content, str) else list(content)
    return [Text(each) if isinstance(each, str) else each for each in given]


class Usage(Struct, frozen=True):
    """The tokens of one reply. `input_tokens` and `output_tokens` are totals that include the other counts."""

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
"""Why a provider did not answer, or why its reply ended in an error."""


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
"""The cause of each kind of failure, which decides what may help.

`request`: the content or the key is wrong; only another request helps. `endpoint`: another endpoint may help. `rate`:
a wait helps, and the endpoint is healthy. `outage`: a wait or another endpoint may help, and the circuit breaker counts
the failure.
"""

TRANSIENT_FAILURES: frozenset[FailureKind] = frozenset(
    kind for kind, cause in FAILURE_CAUSES.items() if cause in ("rate", "outage")
)
"""Failures that may be temporary: the client retries them, and a run that ends with one can be resumed."""


class Failure(Struct, frozen=True):
    """Why a reply ended in an error, with the same kinds for all providers.

    The last four kinds belong to the connection: no server answered, the certificate is not trusted, the answer is not
    HTTP or does not belong to this wire, the answer is larger than the limit.
    """

    kind: FailureKind
    message: str = ""
    status: int | None = None
    code: str = ""
    """The provider's own name of the failure."""
    retry_after: float | None = None
    body: Any = None


class Tool(Struct, frozen=True):
    """A tool that is offered to a model. `run` is called when the model calls the tool."""

    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=dict)
    run: Callable[..., Any] | None = None
    parallel_safe: bool = None  # type: ignore[assignment]
    """Whether the call may run at the same time as others; by default the value of `read_only`."""
    read_only: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    repeatable: bool = False
    """Whether a second run with the same arguments does no harm."""
    timeout: float | None = None
    """The seconds that one call may take; None means the limit of the run."""
    max_output: int | None = None
    """The characters of a result that the model receives; None means the limit of the run."""
    requires_approval: bool = False
    context_parameter: str | None = None
    """The parameter of the function that receives the context of the call. The model does not see it."""
    inspect: Callable[..., Any] | None = None
    """`inspect(arguments, context)` returns the operands of a call (`Operand`) and has no side effects."""

    def __post_init__(self) -> None:
        if self.parallel_safe is None:
            force_setattr(self, "parallel_safe", self.read_only)

    @property
    def is_exec(self) -> bool:
        """Whether the tool runs commands, writes files or acts on another system. Its registration says so."""
        return self.metadata.get("class") == "exec" or self.metadata.get("exec") is True


class NeutralOptions(TypedDict, total=False):
    """The options of a request that have the same name on every wire."""

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
    """True marks the prefix for the prompt cache, if the wire has such markers; "1h" selects the long cache."""
    user: str
    metadata: JsonObject


class RequestOptions(NeutralOptions, total=False):
    """The options of a request: the neutral ones, and under the name of a wire the fields of that wire.

    `anthropic={"service_tier": "auto"}` is sent only on that wire.
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
    """A request to a model. `RequestOptions` lists the names in `options`."""

    model: str
    messages: list[Message] = []
    tools: list[Tool] = []
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Replace the short name of the option, so that other code handles one name.
        if "parallel" in self.options:
            options = {"parallel_tool_calls": self.options["parallel"], **self.options}
            del options["parallel"]
            force_setattr(self, "options", options)


class Reply(Struct, frozen=True):
    """The reply of a model to one request: the message, how it ended, and what it cost."""

    message: Message
    usage: Usage = Usage()
    stop: StopReason = "unknown"
    extra: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    id: str = ""
    failure: Failure | None = None
    """Set if the reply ended in an error. The parts that arrived before it are kept, but no call counts as complete."""

    @property
    def text(self) -> str:
        """The text of the message, without thinking and calls."""
        return self.message.text

    @property
    def calls(self) -> list[ToolCall]:
        """The complete calls. Validation and the policy decide later whether they run."""
        return [part for part in self.message.parts if isinstance(part, ToolCall) and part.complete]

    @property
    def invalid(self) -> list[InvalidCall]:
        """The calls that cannot run: malformed, truncated, of an unknown tool, or with invalid arguments."""
        return [part for part in self.message.parts if isinstance(part, InvalidCall)]


# --------------------------------------------------------------------------------------------------------------------
# Operands: the file that a call would change, the command that it would run, the address that it would use.
#
# The `inspect` function of a tool returns them before the decision about a call, and again directly before it runs.
# Rules match operands, and an approval is valid for exactly these operands.

OperandKind = Literal["path", "command", "url"]
"""The kinds of things that a call can touch."""
Access = Literal["read", "write", "run", "send"]
"""What a call does with an operand."""


class Operand(Struct, frozen=True):
    """A file, command or address that a call would touch, in its state at this moment."""

    kind: OperandKind
    value: str
    """The value that rules match: a path relative to the workspace (absolute if outside), a command line, a URL."""
    access: Access = "read"
    real: str = ""
    """The resolved value: the path with all links followed, the URL with its host in normal form."""
    inside: bool = True
    """Whether a path is in the workspace; for a URL, whether its host is a public address as far as the text shows."""
    protected: bool = False
    """Whether a change of it affects what is trusted later: git hooks, the settings of dragoman, start-up files."""
    identity: str = ""
    """Device and inode; empty if the file does not exist yet."""
    digest: str = ""
    """SHA-256 of the content, for files that would be edited, overwritten or run; otherwise empty."""
