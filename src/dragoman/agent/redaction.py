"""Redaction of the events and results of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.events import RunEvent
from dragoman.agent.result import RunResult
from dragoman.events import (
    ArgumentsDelta,
    PartEnded,
    PartReceived,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.secrets import HumanSink, ModelSink
from dragoman.secrets.vendors import word_set
from dragoman.types import (
    Failure,
    Fault,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Operand,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

if TYPE_CHECKING:
    from dragoman.policy.shell.parser import CommandLine, SimpleCommand

# --------------------------------------------------------------------------------------------------------------------
# Secrets in results are replaced before the model sees them, and restored in the arguments of tools that write.

_TAGGED = re.compile(r"#[A-Za-z0-9]+-\d+\]\Z")
LOST = (
    "Not run: {name} stands for a secret that is not known any more. Read the file again, and use the placeholder that "
    "it contains now."
)


def hide_secrets(result: ToolResult, sink: ModelSink) -> ToolResult:
    """Return the result with a placeholder for each secret. Data for the caller stays unchanged."""
    content = result.content
    if isinstance(content, str):
        hidden: Any = sink.text(content)
    else:
        hidden = [replace(part, text=sink.text(part.text)) if isinstance(part, Text) else part for part in content]
    return result if hidden == content else replace(result, content=hidden)


def restore_secrets(arguments: JsonObject, sink: ModelSink) -> tuple[JsonObject, str]:
    """Return the arguments with the secrets restored, and the first placeholder that belongs to another run."""
    unknown: list[str] = []

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            if "[redacted:" not in value:
                return value
            restored = sink.restore(value)
            # A placeholder that somebody invents has no tag. A placeholder of another run has another tag.
            unknown.extend(each for each in restored.unknown if _TAGGED.search(each))
            return restored.text
        if isinstance(value, dict):
            return {key: walk(inner) for key, inner in value.items()}
        return [walk(inner) for inner in value] if isinstance(value, list) else value

    return walk(arguments), unknown[0] if unknown else ""


# --------------------------------------------------------------------------------------------------------------------
# Commands for people. What the shell would expand or execute stays visible: only literals are hidden.

_COMMAND_NAMES = frozenset({"command", "commands", "cmd", "script", "code"})
# These characters have no meaning for a shell in any kind of quotes. A comma has one in braces.
_INERT = re.compile(r"[A-Za-z0-9_./:=@%+-]+\Z").match
# In these, a plain name is the name of a variable.
_EXPRESSION = re.compile(r"\(\(|\$\[|\[\[")
_PARAMETER = re.compile(r"\$\{?[#!]?[A-Za-z0-9_]*\Z")
_ACTIVE_IN_QUOTES = frozenset("$`\"'\\!\n\r")
_EXPANDED = ("glob", "brace", "tilde", "substitution")
# The arguments of these programs are names of variables, or code, or the name of another program.
_EVALUATE = word_set("let declare typeset local eval trap alias read unset readonly")
_START_OTHERS = word_set(
    "exec command builtin env xargs nohup nice ionice timeout sudo doas su setsid stdbuf watch source . bash sh dash "
    "zsh ksh ssh find parallel time strace ltrace chroot flock unshare nsenter runuser script expect busybox"
)


# A name with one of these says that its value is a secret. Anything else that looks like one may name a program, a file
# or a host.
_TELLING = re.compile(r"pass|pwd|token|secret|key|auth|credential|bearer|cookie", re.IGNORECASE).search
# An option whose next word is a secret. `--ask-password x` and `--anyauth x` only end like one.
_TAKES_SECRET = re.compile(
    r"--(?!(?:no|ask|any|use|show|list|delete|rotate|prompt|skip|save|with|without)(?:-|auth))[\w-]*?"
    r"(?:pass(?:word|wd|phrase)?|pwd|token|secret|key|auth|credentials?|bearer|cookie)",
    re.IGNORECASE,
).fullmatch
_HOST = re.compile(r"://[^/?#]*\Z").search
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=\Z").search
_CLIENTS = word_set("psql mysql sqlite3")
"""They run code of their own language, and take passwords."""


def redact_command(sink: HumanSink, command: str, *, is_asked: bool = True) -> str:
    """Return a command without its secrets, as far as they are literals: parts of words that no shell expands.

    A hidden literal is marked as such. Everything else is shown, even if it looks like a secret: a person who is asked
    about a command must see what runs. So what only looks like a secret is hidden there only as the value of something
    that a name or an address marks as secret.
    """
    pieces: list[str] = []
    at = 0
    known = sink.known_spans(command) if is_asked else []
    for start, end, kind in sink.spans(command):
        is_certain = not is_asked or any(first <= start and end <= last for first, last, _ in known)
        if _is_literal(command, start, end, is_known=sink.knows(command[start:end]), is_certain=is_certain):
            pieces += [command[at:start], f"[redacted literal:{kind}]"]
            at = end
    return "".join([*pieces, command[at:]])


def _is_literal(command: str, start: int, end: int, *, is_known: bool, is_certain: bool) -> bool:
    """Whether this part of a command is part of a word that bash takes as it is, and not the name of a program."""
    hidden = command[start:end]
    if _EXPRESSION.search(command) or _PARAMETER.search(command, 0, start) or command[end : end + 1] == "(":
        return False
    if _INERT(hidden) and ".." not in hidden:
        stand_in = "".join(each if each == "=" else "x" for each in hidden)
    elif is_known and _ACTIVE_IN_QUOTES.isdisjoint(hidden):
        # In quotes the shell leaves it alone; outside, the `;` would end the command.
        stand_in = "x;x"
    else:
        return False
    mark = "Z" * 8
    while mark in command:
        mark += "Z"
    from dragoman.policy.shell.parser import read_command  # a run without commands does not load the shell

    read = read_command(f"{command[:start]}{mark}{stand_in}{mark}{command[end:]}")
    whole = f"{mark}{stand_in}{mark}"
    if any(mark in each and whole not in each for one in read.commands for each in one.words):
        return False
    if any(_is_in_name_or_expansion(one, mark) for one in read.commands) or not _is_one_word(read, whole):
        return False
    return is_certain or _is_secret_by_place(read, whole, hidden)


def _is_secret_by_place(read: CommandLine, whole: str, hidden: str) -> bool:
    """Whether names and addresses around a text say that it is a secret, in a line that runs no other code."""
    from dragoman.policy.shell.programs import FILE_CHANGERS, WRAPPERS, base_name, is_interpreter

    for one in read.commands:
        program = base_name(one.words[0]) if one.words else ""
        if program not in _CLIENTS and (program in WRAPPERS or is_interpreter(program)):
            return False
        if any(whole in each.target for each in one.redirections):
            return False
        options = one.words[: one.words.index("--")] if "--" in one.words else one.words
        for index, word in enumerate(one.words):
            # After `--`, every word is an operand. Programs that change files have no such option.
            option = one.words[index - 1] if 0 < index < len(options) and program not in FILE_CHANGERS else ""
            if whole in word and not _is_marked_as_secret(option, word, whole, hidden):
                return False
        for word in one.assignments:
            if whole in word and not _is_marked_as_secret("", word, whole, hidden):
                return False
    named = [_ASSIGNED(word.partition(whole)[0]) for one in read.commands for word in (*one.words, *one.assignments)]
    return not any(found and re.search(rf"\$\{{?{found[1]}\b", read.text) for found in named)


def _is_marked_as_secret(option: str, word: str, whole: str, hidden: str) -> bool:
    before, _, after = word.partition(whole)
    if not before:
        return not after and _TAKES_SECRET(option) is not None and "/" not in hidden
    if _HOST(before):
        # The name of a user and a password precede the host, which is always shown.
        return "@" not in hidden and "@" in re.split(r"[/?#]", after, maxsplit=1)[0]
    if "://" in f"{before[-2:]}{hidden}":
        return False
    if "://" in before:
        return True
    is_named = _TELLING(before) is not None or (option in ("-u", "--user", "-H", "--header") and ":" in before)
    return is_named and before[-1] in "=: "


def _is_in_name_or_expansion(command: SimpleCommand, mark: str) -> bool:
    """Whether the mark is in the name of the program, or in a word that bash expands."""
    program = command.words[0].rpartition("/")[2] if command.words else ""
    for index, word in enumerate(command.words):
        if mark not in word:
            continue
        if index == 0 or program in _EVALUATE or any(each in command.marks[index] for each in _EXPANDED):
            return True
        before = word.partition(mark)[0]
        if program in _START_OTHERS and (not before or before[-1] in "/ "):
            return True
    return any(mark in each.partition("=")[0] for each in command.assignments)


def _is_one_word(read: CommandLine, whole: str) -> bool:
    texts = [text for one in read.commands for text in (*one.words, *one.assignments)]
    texts += [each.target for one in read.commands for each in one.redirections]
    return any(whole in text for text in texts)


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#\s]*@)?(?P<host>[^/?#\s]*)[^\s]*\Z").match


def redact_place(sink: HumanSink, place: str) -> str:
    """Return a path or an address for a person who is asked about it: only known secrets hide where it leads."""
    address = _ADDRESS(place)
    first, last = address.span("host") if address else (0, len(place))
    spans = [each for each in sink.spans(place) if each[1] <= first or each[0] >= last] + sink.known_spans(place)
    pieces: list[str] = []
    at = 0
    for start, end, kind in sorted(spans):
        if start >= at:
            pieces += [place[at:start], f"[redacted:{kind}]"]
            at = end
    return "".join([*pieces, place[at:]])


def redact_arguments(
    sink: HumanSink, arguments: JsonObject, operands: Iterable[Operand] = (), *, is_asked: bool = True
) -> JsonObject:
    """Return the arguments of a call without their secrets; in commands only literals are hidden.

    With `is_asked`, a person decides about the call, and sees where its paths and addresses lead.
    """
    operands = tuple(operands)
    commands = {operand.value for operand in operands if operand.kind == "command"}
    places = {operand.value for operand in operands if operand.kind in ("path", "url")} if is_asked else set()

    def show(name: str, value: Any) -> Any:
        is_command = name.lower() in _COMMAND_NAMES
        if isinstance(value, str) and (is_command or value in commands):
            return redact_command(sink, value, is_asked=is_asked)
        if isinstance(value, str) and (value in places or (is_asked and _ADDRESS(value))):
            return redact_place(sink, value)
        if isinstance(value, list) and is_command:
            return [show(name, each) for each in value]
        return sink.value({name: value}).popitem()[1]

    return {sink.text(name): show(name, value) for name, value in arguments.items()}


# --------------------------------------------------------------------------------------------------------------------
# Events for people and logs, with their secrets redacted.
#
# Text that arrives in pieces is released word by word. Each word is checked together with the text before it, so that a
# reader does not wait for the end of a line. Text that is still held back is released before any other event.

_BEHIND = 512
_BLANKS = " \t\n\r"
_BLOCK = "-----BEGIN "
_LONGEST_WORD = 4096
_LONGEST_BLOCK = 16_384


class _StreamRedactor:
    """One text that arrives in pieces. Known secrets may have several words; they are searched first, and exactly."""

    def __init__(self, sink: HumanSink) -> None:
        self._sink = sink
        self._known = sink.registered()
        self._behind = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        return self._take(piece if self._known is None else self._known.feed(piece))

    def _take(self, piece: str) -> str:
        self._held += piece
        cut = max(self._held.rfind(blank) for blank in _BLANKS) + 1
        if not cut and len(self._held) < _LONGEST_WORD:
            return ""
        ready, self._held = self._held[: cut or None], self._held[cut:] if cut else ""
        return self._judge(ready)

    def close(self) -> str:
        out = self._take(self._known.close()) if self._known is not None else ""
        ready, self._held = self._held, ""
        return out + self._judge(ready) if ready else out

    def _judge(self, ready: str) -> str:
        whole = self._behind + ready
        shown = self._sink.text(whole)
        if shown == whole:
            out = ready
        else:
            before = self._sink.text(self._behind)
            # If new words change the meaning of old ones, the old ones are already released; the new ones are checked
            # alone.
            out = shown[len(before) :] if shown.startswith(before) else self._sink.text(ready)
        begin = whole.rfind(_BLOCK)
        kept = whole[begin:] if begin >= 0 and len(whole) - begin <= _LONGEST_BLOCK else whole[-_BEHIND:]
        self._behind = kept
        return out


class EventRedactor:
    """Redacts the events of one run."""

    def __init__(self, sink: HumanSink) -> None:
        self._sink = sink
        self._live: _StreamRedactor | None = None
        self._kind: tuple[type, int] | None = None
        self._last: Any = None

    def show(self, event: RunEvent) -> list[RunEvent]:
        """Return the redacted event, preceded by the text that was held back."""
        if isinstance(event, TextDelta | ThinkingDelta | ArgumentsDelta):
            return self._take(event)
        held = self._flush()
        return [*held, event if isinstance(event, UNCHANGED) else redact(self._sink, event)]

    def _take(self, event: TextDelta | ThinkingDelta | ArgumentsDelta) -> list[RunEvent]:
        kind = (type(event), event.index if isinstance(event, ArgumentsDelta) else 0)
        held = self._flush() if kind != self._kind else []
        if self._live is None:
            self._live, self._kind = _StreamRedactor(self._sink), kind
        self._last = event
        out = self._live.feed(event.text)
        if not out:
            return held
        return [*held, event if out == event.text else _with_text(event, out)]

    def _flush(self) -> list[RunEvent]:
        live, self._live, self._kind = self._live, None, None
        rest = live.close() if live is not None else ""
        return [_with_text(self._last, rest)] if rest else []


def _with_text(event: Any, text: str) -> Any:
    return type(event)(text) if isinstance(event, TextDelta) else replace(event, text=text)


# ---- the types of values in events ---------------------------------------------------------------------------------


def _show_call(sink: HumanSink, call: Any) -> Any:
    raw, name = sink.text(call.raw), sink.text(call.name)
    if isinstance(call, InvalidCall):
        faults = tuple(Fault(sink.text(fault.path), sink.text(fault.why)) for fault in call.faults)
        return replace(call, raw=raw, name=name, faults=faults)
    arguments = redact_arguments(sink, call.arguments, is_asked=False)
    if raw == call.raw and name == call.name and arguments == call.arguments:
        return call
    return replace(call, raw=raw, name=name, arguments=arguments, changes=())


def _show_result(sink: HumanSink, result: ToolResult) -> ToolResult:
    content = result.content
    shown: Any = sink.text(content) if isinstance(content, str) else [_show_part(sink, part) for part in content]
    return replace(result, name=sink.text(result.name), content=shown, data=sink.value(result.data))


def _show_part(sink: HumanSink, part: Any) -> Any:
    if isinstance(part, Text | Thinking):
        text = sink.text(part.text)
        return part if text == part.text else replace(part, text=text)
    if isinstance(part, Image | File):
        shown = {name: sink.text(getattr(part, name, None) or "") or None for name in ("url", "name")}
        return replace(part, **{name: text for name, text in shown.items() if text is not None})
    return _RULES[type(part)](sink, part) if type(part) in _RULES else part


def _show_run(sink: HumanSink, result: RunResult) -> RunResult:
    return replace(
        result,
        outcome=replace(result.outcome, reason=sink.text(result.outcome.reason)),
        text=sink.text(result.text),
        data=sink.value(result.data),
        messages=[replace(each, parts=[_show_part(sink, part) for part in each.parts]) for each in result.messages],
        results=[_show_result(sink, each) for each in result.results],
        calls=[_show_call(sink, each) for each in result.calls],
        problems=[replace(each, message=sink.text(each.message)) for each in result.problems],
    )


def _show_failure(sink: HumanSink, failure: Failure) -> Failure:
    return replace(failure, message=sink.text(failure.message), body=sink.value(failure.body))


_RULES: dict[type, Callable[[HumanSink, Any], Any]] = {
    ToolCall: _show_call,
    InvalidCall: _show_call,
    ToolResult: _show_result,
    RunResult: _show_run,
    Failure: _show_failure,
    Usage: lambda sink, usage: usage,
}
"""Types with fields that stay unchanged: ids, the data of media, and opaque data for the codec of a wire."""
UNCHANGED = (PartEnded, PartReceived, UsageReported, ReplyEnded)
"""Event types that stay unchanged: they carry numbers, media, and opaque data for the codec of a wire."""


def redact(sink: HumanSink, value: Any) -> Any:
    """Return a value with every text in it redacted, whatever its type: a new event type or field cannot leak."""
    if isinstance(value, str):
        return sink.text(value)
    if type(value) in _RULES:
        return _RULES[type(value)](sink, value)
    if isinstance(value, Struct):
        return replace(value, **{name: redact(sink, getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, list | tuple):
        inner = [redact(sink, each) for each in value]
        return inner if isinstance(value, list) else tuple(inner)
    return sink.value(value) if isinstance(value, dict) else value
