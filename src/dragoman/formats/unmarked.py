"""Readers of calls that no template describes: JSON without a marker, a lone name, and residue of the protocol."""

from __future__ import annotations

import re
from collections.abc import Generator

from dragoman.formats.cursor import BrokenCall, Cursor, Markers, NotACall, Reader
from dragoman.formats.envelope import properties_of, required_of
from dragoman.formats.json_reader import HeldCall, HeldCalls, JsonBody, read_calls, report, report_held, run_to
from dragoman.formats.template import Entry, Place, UnmarkedEntry

# --------------------------------------------------------------------------------------------------------------------
# JSON calls without a marker: the whole message, a fenced whole message, or, if a format allows it, anywhere.

_json_begins = re.compile(r"(?:\[\s*)?\{(?:\s*[\"'\w“]|\{\s*[\"'“])")
_json_may_begin = re.compile(r"(?:\[\s*)?(?:\{\{?\s*)?\Z")
_end_token = re.compile(r"(<\|[\w/]{1,40}\|>|</s>|<eos>|;)|([\]}])|(</[\w:\-]{1,40}>|\[/\w{1,40}\])").match
_growing_token = re.compile(r"(?:<(?:\|[\w/]{0,40}\|?|/[\w:\-]{0,40}|e(?:os?)?)?|\[(?:/\w{0,40})?)?\Z").match
_FENCE = Markers(["```"])
_other_turn = re.compile(r"<\|(?:start_header_id|im_start|start_of_role|start)\|>|<start_of_turn>|\[INST\]").match
_growing_turn = re.compile(r"(?:<(?:\|[a-z_]{0,16}\|?|[a-z_]{0,14})?|\[(?:I(?:N(?:ST?)?)?)?)\Z").match
"""Match the token with which a model begins a turn of somebody else, after it has ended its own."""


class WholeMessage(UnmarkedEntry):
    """A message that is one or several JSON calls and nothing else."""

    start, growing_start = _json_begins, _json_may_begin
    is_read_loosely = True

    def __init__(self, format_name: str) -> None:
        self.format = format_name
        self._body = JsonBody(bare=True, gated=True, strict=True)

    def read(self, cursor: Cursor) -> Reader:
        mark = cursor.begin()
        held = HeldCalls()
        call = yield from read_calls(cursor, self._body, held)
        is_over = False
        while not is_over or not (yield from _begins_other_turn(cursor)):
            found = yield from _take_end_token(cursor)
            if found is None:
                yield from _require_end(cursor)
                break
            is_over = is_over or (found[1] or ";") != ";"
            if found[2]:
                cursor.repair("extra_closers")
            elif found[3]:
                cursor.repair("missing_marker")  # the closer of a wrapper that was not opened
        if call is None:
            raise NotACall("no call in the list")
        report_held(cursor, mark, held, call)


class FencedMessage(WholeMessage):
    """The same in a code fence: ```json ... ``` with nothing around it."""

    start = re.compile(r"```[ \t]*(?:json|JSON|json5|javascript|python)?[ \t]*\r?\n\s*(?:\[\s*)?\{")
    growing_start = re.compile(r"`{1,3}[ \t]*[a-zA-Z0-9]{0,10}[ \t\r]*(?:\n\s*(?:\[\s*)?)?\Z")

    def __init__(self, format_name: str) -> None:
        super().__init__(format_name)
        self._fenced_body = JsonBody(stops=Markers(["\n```"]), bare=True, gated=True, strict=True)

    def read(self, cursor: Cursor) -> Reader:
        while (newline := cursor.text.find("\n", cursor.position)) < 0:
            yield from cursor.need()
        mark = cursor.begin()
        cursor.position = newline + 1
        held = HeldCalls()
        while True:
            call = yield from read_calls(cursor, self._fenced_body, held)
            if (yield from cursor.take(_FENCE)) is None:
                raise BrokenCall("the fence was not closed")
            if call is None or not (yield from self._goes_on(cursor)):
                break
            held.calls.append(HeldCall(call, cursor.base + cursor.position, tuple(cursor.repairs)))
            cursor.repairs = []
            cursor.position = cursor.text.index("\n", cursor.position) + 1
        yield from _require_end(cursor)
        if call is None:
            raise NotACall("no call in the list")
        report_held(cursor, mark, held, call, "markdown_fence")

    def _goes_on(self, cursor: Cursor) -> Generator[None, None, bool]:
        """Whether another fence with JSON follows."""
        yield from cursor.space()
        mark = cursor.begin()
        found = yield from cursor.try_match(self.start.match, self.growing_start.match)
        cursor.return_to(mark)
        return found is not None


def _take_end_token(cursor: Cursor) -> Generator[None, None, re.Match[str] | None]:
    # Not a part of the pattern, which would read all of it again with every piece.
    yield from cursor.space()
    return (yield from cursor.try_match(_end_token, _growing_token))


def _begins_other_turn(cursor: Cursor) -> Generator[None, None, bool]:
    """Whether the model invents the next turn of the conversation. Then its own message is over."""
    mark = cursor.begin()
    yield from cursor.space()
    begins = (yield from cursor.try_match(_other_turn, _growing_turn)) is not None
    cursor.return_to(mark)
    return begins


def _require_end(cursor: Cursor) -> Reader:
    """Raise NotACall if anything but white space follows: then the message is more than a call."""
    yield from cursor.space()
    if cursor.position < len(cursor.text):
        raise NotACall("the message continues after the JSON")


class JsonAnywhere(Entry):
    """JSON calls between sentences, for formats whose models write calls as plain JSON."""

    def __init__(self, format_name: str, *, openers: tuple[str, ...] = ("{", "[")) -> None:
        self.format = format_name
        self.openers = openers
        self._body = JsonBody(bare=True, strict=False, stops=None)

    def read(self, cursor: Cursor) -> Reader:
        mark = cursor.begin()
        yield from cursor.match(_json_begins.match, _json_may_begin.match, "no JSON object begins here")
        cursor.return_to(mark)
        call = yield from read_calls(cursor, self._body)
        if call is None:
            raise NotACall("no call in the list")
        report(cursor, call)


class LoneName(Entry):
    """A marker and a name with which the reply ends: a complete call, if the tool has no parameters.

    If another offered name begins in the same way, the text may be the beginning of that one.
    """

    _lone = re.compile(r"[ \t]*([^\W\d][\w.\-]{0,199})\s*\Z").match
    _growing = re.compile(r"[ \t]*(?:[^\W\d][\w.\-]{0,199}\s{0,200})?\Z").match

    def __init__(self, format_name: str, opener: str) -> None:
        self.format = format_name
        self.openers = (opener,)
        self._opener = Markers(self.openers)

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        while not cursor.final and self._growing(cursor.text, cursor.position) is not None:
            yield
        match = self._lone(cursor.text, cursor.position) if cursor.final else None
        if match is None or cursor.tools is None:
            raise NotACall("the reply does not end with the name of a tool")
        name = match[1]
        if [offered for offered in cursor.tools.names if offered.startswith(name)] != [name]:
            raise NotACall("no tool of this name is offered, or a longer name begins like that")
        tool = cursor.tools.find(name)
        if properties_of(tool) or required_of(tool):
            raise NotACall("the arguments of the tool are missing")
        cursor.position = len(cursor.text)
        cursor.repair("closed_wrapper")
        cursor.finish_call(name, {})


# --------------------------------------------------------------------------------------------------------------------
# Residue of the protocol: end tokens behind the answer, and results that the model invents after its own call.

_END_TOKENS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "</s>",
    "<eos>",
    "<eom>",
    "<end_of_turn>",
    "<|end_of_text|>",  # Granite, and the base models of Llama 3
    *("<|user|>", "<|observation|>"),  # GLM stops at the next role
    "<|role_end|>",  # Ling, Ring
    "<|assistant_end|>",  # Apertus
    "<|end_of_msg|>",  # Kimi K3
    "<|end_of_sentence|>",  # ERNIE
    "<seed:eos>",
    *("<|eos|>", "<|EOT|>"),  # Hunyuan, Step
    "[|endofturn|]",  # EXAONE
    "[e~[",  # MiniMax
)
_MOST_ENDS = 200
_WHOLE = "|".join(map(re.escape, _END_TOKENS))
_CUT = "|".join({re.escape(token[:length]) for token in _END_TOKENS for length in range(1, len(token))})
_ends_reply = re.compile(rf"(?:\s*(?:{_WHOLE}))+\s*\Z").match
_may_end_reply = re.compile(rf"(?:\s*(?:{_WHOLE}))*\s*(?:{_CUT})?\Z").match


class EndTokens(Entry):
    """Tokens that end a reply, at its end. Elsewhere they are text."""

    format = ""
    openers = _END_TOKENS

    def read(self, cursor: Cursor) -> Reader:
        while True:
            if len(cursor.text) - cursor.position > _MOST_ENDS or _may_end_reply(cursor.text, cursor.position) is None:
                raise NotACall("the reply goes on after the token")
            if cursor.final:
                break
            yield
        if cursor.refusing or _ends_reply(cursor.text, cursor.position) is None:
            raise NotACall("the reply goes on after the token")
        cursor.position = len(cursor.text)


class OrphanClosers(Entry):
    """Closing tags directly after a call that is closed already."""

    format = ""
    openers = (
        *("</parameter>", "</arg_value>", "</function>", "</invoke>"),
        *("</tool_call>", "</function_invocation>", "<|/tool_call|>"),
    )
    _closers = Markers(openers)

    def read(self, cursor: Cursor) -> Reader:
        if not cursor.follows_call or cursor.refusing:
            raise NotACall("no call stands before the closing tag")
        while (yield from cursor.take(self._closers)) is not None:
            pass


class InventedResult(Entry):
    """A block of results directly after a call. The model invented it; calls inside it do not count."""

    format = ""
    place: Place = "line"

    def __init__(self, opener: str, closer: str) -> None:
        self.openers = (opener,)
        self._opener = Markers(self.openers)
        self._closer = Markers((closer,))

    def read(self, cursor: Cursor) -> Reader:
        if not cursor.follows_call or cursor.refusing:
            raise NotACall("no call stands before the results")
        yield from cursor.expect(self._opener)
        if not (yield from run_to(cursor, self._closer)):
            raise NotACall("the results do not end")
        yield from cursor.expect(self._closer)


class ResultsHeading(Entry):
    """A last line that announces results, directly after a call. With results after it, the heading is text as well."""

    format = ""
    openers = ("[Tool results]", "[Tool result]", "[tool results]", "[tool result]")
    place: Place = "line"

    def __init__(self) -> None:
        self._opener = Markers(self.openers)

    def read(self, cursor: Cursor) -> Reader:
        if not cursor.follows_call or cursor.refusing:
            raise NotACall("no call stands before the heading")
        yield from cursor.expect(self._opener)
        yield from _require_end(cursor)


RESULT_TAGS = tuple(
    f"{source}_{word}{plural}"
    for source in ("tool", "function", "tool_call", "function_call")
    for word in ("result", "response", "output", "observation")
    for plural in ("", "s")
)
"""The tags in which chat templates put results. A model that writes one invents a result, or quotes one."""
RESIDUE: tuple[Entry, ...] = (
    EndTokens(),
    OrphanClosers(),
    *(InventedResult(f"<{tag}>", f"</{tag}>") for tag in RESULT_TAGS),
    InventedResult("~~~tool_result", "\n~~~"),
    InventedResult("```tool_result", "\n```"),
    ResultsHeading(),
)
