"""Readers of formats that write a call as lines of plain text."""

from __future__ import annotations

import re
from typing import Any

from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.tolerant import Repaired, TolerantReader, repair
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.cursor import BrokenCall, Cursor, Markers, NotACall, Reader, Truncated, write_json
from dragoman.formats.envelope import NoCall, fits, read_arguments, read_envelope
from dragoman.formats.json_reader import JsonBody, read_closed_calls, read_object, read_value, report, run_to
from dragoman.formats.readers.arguments import Arguments, read_slot, run_value, single_parameter
from dragoman.formats.readers.elements import CLOSERS, TAGS, close_wrapper
from dragoman.formats.steps import Scope, read_or_skip
from dragoman.formats.template import Entry, Place, UnmarkedEntry
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# GLM: a call is a line with the name, an optional key, and a bracket before the value.
#
#     search/query>foo        shell>pwd        shell/{"command": "pwd"}        <tool_call>shell>pwd</tool_call>
#
# Such a line has no marker, so it counts only at the start of a line and for offered names. Without tools, there are
# no names to compare; then a key of two letters or more is required, because `lib/a>b` is usually a path.

_NAME = r"[A-Za-z_][\w.\-]{0,99}"
_line = re.compile(rf"({_NAME})(?:/({_NAME})>|/(?=\{{\s?[\"'}}])|>(?=\S|[ \t]\S))")
_growing_line = re.compile(rf"(?:{_NAME}(?:/(?:{_NAME})?|/\{{\s?|>[ \t]?)?)?\Z")
_line_end = Markers(["\n", "\r\n"])
_line_body = JsonBody(stops=_line_end)
_tags = Markers(TAGS)
_short = re.compile(rf"({_NAME})>").match
_growing_short = re.compile(rf"(?:{_NAME})?\Z").match
_less = Markers(["</"])
_glm_ends = Markers(CLOSERS)
_pair = re.compile(rf"\s*({_NAME})\s*:").match
_WORDS = {"true": True, "false": False}


_line_anywhere = re.compile(rf"\n[ \t]*+{_line.pattern}").search


def _may_contain_lines(text: str) -> bool:
    return ("/" in text or ">" in text) and _line_anywhere("\n" + text.lstrip()) is not None


class GlmLine(UnmarkedEntry):
    """A line that is one call."""

    format = "glm_lines"
    place: Place = "line"
    start, growing_start = _line, _growing_line
    is_read_loosely = True
    line_gate = r"[^\W\d][\w.\-]*[ \t]*[/>]"
    line_is_named = True

    def may_occur(self, cursor: Cursor) -> bool:
        return _may_contain_lines(cursor.text)

    def read(self, cursor: Cursor) -> Reader:
        match = _line.match(cursor.text, cursor.position)
        if match is None:
            raise NotACall("not a line of this form")
        name, key = match[1], match[2]
        in_json = match[0].endswith("/")
        cursor.require_offered(name)
        if cursor.tools is not None and not cursor.tools.may_begin(name):
            raise NotACall(f"{name!r} has a namespace that no tool has")
        if cursor.tools is None and not in_json and (key is None or len(key) < 2):
            raise NotACall("no tools to compare with: it may be a path")
        key = key or (None if in_json else single_parameter(cursor.find_tool(name)))
        if key is None and not in_json:
            raise NotACall(f"{name!r} has no single parameter that the value could fill")
        cursor.position = match.end()
        arguments = Arguments(cursor.start_call(name))
        if key is None:
            arguments.take((yield from read_object(cursor, _line_body)))
            if "closed_brackets" in cursor.repairs and "closed_wrapper" not in cursor.repairs:
                raise BrokenCall("the object does not end on its line")
        else:
            yield from arguments.read_value(cursor, key, _line_end, to_end=True)
        arguments.finish(cursor, name)


class GlmTagged(Entry):
    """The same inside a tag: `NAME>value`, or `NAME>` and then a line `key: value` for each argument."""

    format = "glm_lines"
    openers = TAGS

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(_tags)
        yield from cursor.space()
        name = (yield from cursor.match(_short, _growing_short, "no name with a bracket after it"))[1]
        arguments = Arguments(cursor.start_call(name))
        yield from read_or_skip(cursor, _read_pairs(cursor, arguments), _glm_ends)
        yield from close_wrapper.run(cursor, Scope())
        arguments.finish(cursor, name)


def _read_pairs(cursor: Cursor, arguments: Arguments) -> Reader:
    mark = cursor.begin()
    yield from run_value(cursor, _less, streamed=False)
    text = cursor.since(mark)
    lines = [line for line in text.split("\n") if line.strip()]
    pairs = [(pair[1], line[pair.end() :].strip()) for line in lines if (pair := _pair(line)) is not None]
    if lines and "\n" in text and len(pairs) == len(lines):
        for key, value in pairs:
            if value in _WORDS and not arguments.declares(key):
                arguments.add(cursor, key, _WORDS[value])
            else:
                arguments.add_text(cursor, key, value)
        return
    single = single_parameter(arguments.tool)
    if single is None or not lines:
        raise BrokenCall("a value without a key, and no single parameter that it could fill")
    arguments.add_text(cursor, single, text)


# --------------------------------------------------------------------------------------------------------------------
# ReAct: plain words on lines of their own, as in the prompts of early agents.
#
# Action: search
# Action Input: {"query": "x"}

_LABELS = ("Observation", "Thought", "Action", "Final Answer")
_TRANSLATED = {
    "Observation": ("观察", "観察", "Beobachtung", "Observación", "Observação", "Наблюдение"),
    "Thought": ("思考", "Gedanke", "Pensamiento", "Pensamento", "Pensée", "Мысль"),
    "Action": ("行动", "动作", "行動", "アクション", "Aktion", "Acción", "Ação", "Действие"),
    "Action Input": (
        "行动输入",
        "动作输入",
        "行動の入力",
        "アクション入力",
        "Aktionseingabe",
        "Entrada de la acción",
        "Entrada da ação",
        "Entrée de l'action",
        "Ввод действия",
        "Входные данные",
    ),
    "Final Answer": ("最终答案", "最終回答", "Endgültige Antwort", "Respuesta final", "Resposta final"),
}
_MOST_NUMBERED = 9


def _spell(label: str) -> tuple[str, ...]:
    """Return a label in the spellings of models: in lower case, in bold type, with a number, in other languages."""
    numbered = tuple(f"{label} {number}:" for number in range(1, _MOST_NUMBERED + 1))
    translated = tuple(form.format(word) for word in _TRANSLATED.get(label, ()) for form in ("{}:", "{}：", "**{}:**"))
    plain = tuple(form.format(word) for word in (label, label.lower()) for form in ("{}:", "**{}:**", "**{}**:"))
    return plain + numbered + translated


_stops = Markers("\n" + spelling for label in _LABELS for spelling in _spell(label))
_observation = Markers(_spell("Observation"))
_INPUTS = ("Action Input", "Action input", "ActionInput", "Action_Input")
_input = Markers(spelling for label in _INPUTS for spelling in _spell(label))
_react_line_end = Markers(["\n"])
_nothing = Markers("\n" + spelling for spelling in _spell("Observation"))
_action = Markers(_spell("Action"))
_react_body = JsonBody(stops=_stops)
_named = re.compile(rf"""\s*["']?({_NAME})["']?\s*[=:]\s*""").match
_name = re.compile(r"[\s\[`\"'*]*([A-Za-z_](?:[\w.\-]|\\_){0,99})(?:\(\))?[\s\]`\"'*.]*\Z").match


class React(Entry):
    format = "react"
    openers = _spell("Action")
    place: Place = "line"

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(_action)
        match = _name((yield from read_slot(cursor, _react_line_end, 200)))
        if match is None:
            raise NotACall("not a tool name")
        name = match[1].replace("\\", "")
        cursor.require_offered(name)
        if (yield from cursor.take(_input)) is None:
            raise NotACall("no input follows the action")
        character = yield from cursor.peek()
        if not character:
            raise NotACall("the input is empty")
        if character != "{" and cursor.tools is None:
            raise NotACall("without tools, the input must be JSON")
        arguments = Arguments(cursor.start_call(name))
        yield from read_or_skip(cursor, _read_input(cursor, arguments, character), _nothing, _stops)
        if (yield from cursor.take(_observation)) is not None:
            # Whatever follows, the model invented it.
            yield from run_to(cursor, _stops)
        arguments.finish(cursor, name)


def _read_input(cursor: Cursor, arguments: Arguments, character: str) -> Reader:
    if character == "{":
        arguments.take((yield from read_object(cursor, _react_body)))
        return
    mark = cursor.begin()
    yield from run_to(cursor, _stops)
    text = cursor.since(mark).strip()
    found = _read_notation(cursor, arguments, text)
    if found is not None:
        for written, value in found.items():
            arguments.add(cursor, written, value)
        return
    key = single_parameter(arguments.tool)
    if key is None:
        raise BrokenCall("plain text as input, and no single parameter that it could fill")
    arguments.add_text(cursor, key, text)


def _read_notation(cursor: Cursor, arguments: Arguments, text: str) -> JsonObject | None:
    """Return the arguments of an input that states them in another notation; None if it is a plain text.

    An input that begins like arguments and cannot be read is broken: as plain text, it would be the wrong value.
    """
    if text[:1] in "\"'`":
        mended = repair(text)
        if mended.error is None and isinstance(mended.value, str | dict):
            return _read_quoted(cursor, arguments, mended)
    brace = text.find("{")
    if brace >= 0:
        mended = repair(text[brace:])
        if isinstance(mended.value, dict) and fits(mended.value, arguments.tool) and mended.value:
            cursor.repair(*mended.rules, "surrounding_text")
            return mended.value
    named = _named(text)
    if named is None or not arguments.declares(named[1]):
        return None
    reader = TolerantReader(text + ")", python=True)
    try:
        positional, keywords, end = reader.arguments(0)
    except Unreadable:
        positional, keywords, end = [], {}, 0
    if keywords and not positional and end > len(text) and fits(keywords, arguments.tool):
        cursor.repair(*reader.rules)
        return keywords
    if named[1] != single_parameter(arguments.tool) or text[named.end() :][:1] in ("{", "[") or "\n" in text:
        raise BrokenCall("the input is neither JSON nor plain text")
    cursor.repair("unquoted_value")
    return {named[1]: text[named.end() :].strip()}


def _read_quoted(cursor: Cursor, arguments: Arguments, mended: Repaired) -> JsonObject | None:
    """Read an input in quotes: JSON that was encoded twice, or the text of a single parameter."""
    cursor.repair(*mended.rules)
    key = single_parameter(arguments.tool)
    if mended.value == "":
        return {} if key is None else {key: ""}
    try:
        found, rules = read_arguments(mended.value)
    except NoCall as no_call:
        if str(mended.value).lstrip().startswith(("{", "[")):
            raise BrokenCall(str(no_call)) from None
        return None if key is None else {key: mended.value}
    cursor.repair(*rules)
    return found


# --------------------------------------------------------------------------------------------------------------------
# Cohere Command R and R+: a fenced list of actions after the word `Action:`.
#
#     Action: ```json
#     [{"tool_name": "search", "parameters": {"query": "x"}}]
#     ```
#
# The action `directly_answer` means: no call.

_fence = Markers(["```"])
_opening = Markers(["```json", "```JSON"])
_actions = JsonBody(stops=_fence)
_NO_ACTION = ("directly_answer", "directly-answer")


class CommandR(Entry):
    format = "cohere_command_r"
    openers = ("Action:",)
    place: Place = "line"

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len("Action:")
        if (yield from cursor.take(_opening)) is None:
            raise NotACall("no fence after the word")
        if (yield from cursor.peek()) not in ("[", "{"):
            raise NotACall("no list of actions")
        cursor.commit()
        value = yield from read_value(cursor, _actions, emit=False)
        yield from cursor.close_wrapper(_fence)
        rules = tuple(cursor.repairs)
        is_closed = "closed_wrapper" not in rules
        try:
            calls = read_envelope(value, cursor.tools, strict=not is_closed).calls
        except NoCall as no_call:
            raise (BrokenCall(str(no_call)) if is_closed else Truncated()) from None
        for call in calls:
            if call.name not in _NO_ACTION:
                cursor.repair(*rules)
                report(cursor, call)


# --------------------------------------------------------------------------------------------------------------------
# Calls in the style of Perl, as MiniMax writes them at some hosts.
#
# [TOOL_CALL]
# {tool => "search", args => { --query "x" --limit 3 }}
# [/TOOL_CALL]

_closers = Markers(["[/TOOL_CALL]", "\n/TOOL_CALL"])
_perl_ends = Markers(["[/TOOL_CALL]", "/TOOL_CALL"])
_quote = Markers(['"'])
_perl_body = JsonBody(stops=_closers)
_head = re.compile(
    r"""\{?\s*tool\s*(?:=>|[:=])?\s*["']([^"'\n]{1,200})["']\s*[,;]?\s*(?:args|arguments|parameters)\s*(?:=>|[:=])?\s*\{"""
).match
_growing_head = re.compile(r".{0,500}\Z", re.DOTALL).match
_key = re.compile(r"""[\s,;]*(?:--)?["']?([A-Za-z_][\w.\-]{0,99})["']?[ \t]*(?:=>|[:=])?[ \t]*""").match
_end = re.compile(r"[\s,;]*\}[\s}]*\Z").match
_scalar = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[\s,;}])|(?:true|false|null)(?=[\s,;}])").match
_next_option = re.compile(r"[ \t]--[A-Za-z_]|\n").search


class Perl(Entry):
    format = "perl"
    openers: tuple[str, ...] = ("[TOOL_CALL]",)

    def read(self, cursor: Cursor) -> Reader:
        cursor.position += len(self.openers[0])
        if (yield from cursor.peek()) != "{":
            raise NotACall("no call between the markers")
        quoted, _ = yield from cursor.look(_quote, 1)
        if quoted is not None:
            # A model without instructions for this format writes JSON.
            yield from read_closed_calls(cursor, _perl_body, _perl_ends)
            return
        # A long text before the arguments means that this is not a call.
        name = (yield from cursor.match(_head, _growing_head, "no call between the markers"))[1].strip()
        cursor.start_call(name)
        mark = cursor.begin()
        closer = yield from run_value(cursor, _closers, streamed=False, to_end=True)
        text = cursor.since(mark)
        if not closer and not text.rstrip().endswith("}"):
            cursor.ended = True
            raise Truncated
        yield from cursor.close_wrapper(_perl_ends)
        arguments = _read_arguments(cursor, text)
        cursor.delta(write_json(arguments))
        cursor.finish_call(name, arguments)


class PerlWithoutBrackets(Perl):
    """The markers without their brackets, each on a line of its own."""

    openers = ("TOOL_CALL",)
    place: Place = "line"


def _read_arguments(cursor: Cursor, text: str) -> JsonObject:
    position = 0
    arguments: JsonObject = {}
    tolerant = TolerantReader(text)
    while not _end(text, position):
        key = _key(text, position)
        if key is None:
            raise BrokenCall(f"{text[position : position + 20]!r} is no argument")
        value, position = _read_value(cursor, tolerant, text, key.end())
        if key[1] in arguments:
            cursor.repair("repeated_argument")
        arguments[key[1]] = value
    cursor.repair(*tolerant.rules)
    return arguments


def _read_value(cursor: Cursor, tolerant: TolerantReader, text: str, position: int) -> tuple[Any, int]:
    if text[position : position + 1] in ('"', "'", "{", "["):
        try:
            return raw_decode(text, position)
        except Undecodable:
            pass
        try:
            return tolerant.value(position)
        except Unreadable as failure:
            raise BrokenCall(failure.why) from None
    scalar = _scalar(text, position)
    if scalar is not None:
        return raw_decode(text, position)[0], scalar.end()
    stop = _next_option(text, position)
    # The braces that close the call may be on the same line.
    end = stop.start() if stop is not None else len(text.rstrip("} \t\r\n"))
    bare = text[position:end].strip()
    if not bare:
        raise BrokenCall("an argument without a value")
    cursor.repair("unquoted_value")
    return bare, end
