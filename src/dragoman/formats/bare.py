"""JSON calls without a marker: the whole message, a fenced whole message, or, where a format asks for it, anywhere."""

from __future__ import annotations

import re

from dragoman.formats.cursor import Cursor, NotACall, Reader, Spoilt
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import JsonBody, read_calls, report
from dragoman.formats.markers import Markers

_json_begins = re.compile(r"(?:\[\s*)?\{\s*[\"'\w“]").match
_json_may_begin = re.compile(r"(?:\[\s*)?(?:\{\s*)?\Z").match
_fence_begins = re.compile(r"```[ \t]*(?:json|JSON|json5|javascript|python)?[ \t]*\r?\n\s*(?:\[\s*)?\{").match
_fence_may_begin = re.compile(r"`{1,3}[ \t]*[a-zA-Z0-9]{0,10}[ \t\r]*(?:\n\s*(?:\[\s*)?)?\Z").match
_END_TOKENS = Markers(["<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>", "]", "}", ";"])
_FENCE = Markers(["```"])


class WholeMessage:
    """The message is one JSON call, or several, and nothing else."""

    openers: tuple[str, ...] = ()
    place: Place = "message"
    section = None
    keeps_envelope = True  # ids and the text beside the calls, which loose reading would lose

    def __init__(self, format_name: str) -> None:
        self.format = format_name
        self._body = JsonBody(bare=True, gated=True, strict=True)

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _json_begins(text, at):
            return True
        return None if not final and _json_may_begin(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        wish = yield from read_calls(cursor, self._body)
        while True:
            found, ahead = yield from cursor.look(_END_TOKENS)
            if found is None:
                break
            cursor.position += ahead + len(found)
            if found in "]}":
                cursor.repair("extra_closers")
        yield from _require_end(cursor)
        if wish is None:
            raise NotACall("no call in the list")
        report(cursor, wish)


class FencedMessage(WholeMessage):
    """The same in a code fence: ```json ... ``` and nothing around it."""

    def __init__(self, format_name: str) -> None:
        super().__init__(format_name)
        self._fenced_body = JsonBody(stops=Markers(["\n```"]), bare=True, gated=True, strict=True)

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if _fence_begins(text, at):
            return True
        return None if not final and _fence_may_begin(text, at) else False

    def read(self, cursor: Cursor) -> Reader:
        while (newline := cursor.text.find("\n", cursor.position)) < 0:
            yield from cursor.need()
        cursor.position = newline + 1
        wish = yield from read_calls(cursor, self._fenced_body)
        found, ahead = yield from cursor.look(_FENCE)
        if found is None:
            raise Spoilt("the fence was not closed")
        cursor.position += ahead + len(found)
        yield from _require_end(cursor)
        if wish is None:
            raise NotACall("no call in the list")
        cursor.repair("markdown_fence")
        report(cursor, wish)


def _require_end(cursor: Cursor) -> Reader:
    """Anything but white space after the call, and the message was more than a call."""
    yield from cursor.space()
    if cursor.position < len(cursor.text):
        raise NotACall("the message goes on after the JSON")


class JsonAnywhere(MarkedEntry):
    """For formats whose models write calls as plain JSON: also between sentences."""

    def __init__(self, format_name: str, *, openers: tuple[str, ...] = ("{", "[")) -> None:
        self.format = format_name
        self.openers = openers
        self._body = JsonBody(bare=True, strict=False, stops=None)

    def read(self, cursor: Cursor) -> Reader:
        while True:
            if _json_begins(cursor.text, cursor.position):
                break
            if cursor.final or not _json_may_begin(cursor.text, cursor.position):
                raise NotACall("no JSON object begins here")
            yield
        wish = yield from read_calls(cursor, self._body)
        if wish is None:
            raise NotACall("no call in the list")
        report(cursor, wish)
