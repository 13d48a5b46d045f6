"""Questions of a server to the user during a call: a form with a few fields, or a page to open.

Both go through the function that answers the tool `ask_user`. The user sees which server asks, and agrees before the
first field and before a page opens. The schema of a form is untrusted, like that of a tool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.jsonschema.untrusted import BadSchema, accept_schema
from dragoman.logs import get_log
from dragoman.mcp.definitions import TEXT_RULES
from dragoman.mcp.oauth import LoginFault, check_address
from dragoman.mcp.protocol import INVALID_PARAMS, METHOD_NOT_FOUND, ErrorReply, Limits, clean_line, clean_text
from dragoman.mcp.servers import HttpServer, Server, is_loopback
from dragoman.types import JsonObject

Ask = Callable[[str, list[str]], Awaitable[Any]]
"""`await ask(question, choices)` returns the answer of a person; None or an empty text if nobody answers."""
Visit = Callable[[str], Awaitable[Any]]
"""Opens a page in the browser of the user."""

_log = get_log("mcp")
_MOST_FIELDS = 20
_MOST_CHOICES = 50
_TRIES = 3
_AGREE, _DECLINE, _OPEN, _SKIP = "Answer", "Decline", "Open the page", "(leave out)"
CANCEL: JsonObject = {"action": "cancel"}
DECLINE: JsonObject = {"action": "decline"}


class Elicitation:
    """Answers the questions of one server."""

    def __init__(self, server: Server, limits: Limits, visit: Visit) -> None:
        self._server = server
        self._limits = limits
        self._visit = visit

    async def answer(self, method: Any, params: Any, ask: Ask | None) -> JsonObject:
        """Return the result for a request of the server. Raises ErrorReply for what this client does not offer."""
        if method == "roots/list":
            return {"roots": []}
        if method != "elicitation/create":
            raise ErrorReply(METHOD_NOT_FOUND, "this client does not support it")
        if not isinstance(params, dict) or not isinstance(params.get("message"), str):
            raise ErrorReply(INVALID_PARAMS, "the request has no message")
        if ask is None:
            return CANCEL
        ask = _without_errors(ask)
        said = clean_text(params["message"], 2000)
        head = f"The MCP server {self._server.name!r} asks: {said}"
        if params.get("mode", "form") == "url":
            return await self._ask_to_open(head, params.get("url"), ask)
        return await self._fill(head, params.get("requestedSchema"), ask)

    # ---- a page ----------------------------------------------------------------------------------------------------

    async def _ask_to_open(self, head: str, url: Any, ask: Ask) -> JsonObject:
        is_local = isinstance(self._server, HttpServer) and is_loopback(urlsplit(self._server.url).hostname or "")
        try:
            address = check_address(url, "the page", is_local=is_local)
        except LoginFault as fault:
            raise ErrorReply(INVALID_PARAMS, str(fault)) from None
        host = urlsplit(address).hostname
        question = f"{head}\n\nIt wants you to open this page of {host} in your browser:\n{address}"
        given = await _choose(ask, question, [_OPEN, _DECLINE])
        if given != _OPEN:
            return DECLINE if given == _DECLINE else CANCEL
        await self._visit(address)
        return {"action": "accept"}

    # ---- a form ----------------------------------------------------------------------------------------------------

    async def _fill(self, head: str, schema: Any, ask: Ask) -> JsonObject:
        limits = self._limits
        try:
            accepted = accept_schema(
                schema, TEXT_RULES, most_bytes=limits.schema_bytes, most_levels=limits.schema_depth
            )
        except BadSchema as problem:
            raise ErrorReply(INVALID_PARAMS, f"the form cannot be used: {problem}") from None
        fields = accepted.get("properties", {})
        if len(fields) > _MOST_FIELDS or not all(isinstance(each, dict) for each in fields.values()):
            raise ErrorReply(INVALID_PARAMS, "the form cannot be used: it has too many fields, or none that is simple")
        listed = ", ".join(_title(name, field) for name, field in fields.items())
        about = f"\n\nIt asks for: {listed}. What you answer is sent to it; give it no password." if fields else ""
        given = await _choose(ask, head + about, [_AGREE, _DECLINE])
        if given != _AGREE:
            return DECLINE if given == _DECLINE else CANCEL
        needed = accepted.get("required", [])
        content: JsonObject = {}
        for name, field in fields.items():
            try:
                value = await self._ask_field(name, field, ask, is_needed=name in needed)
            except _NoAnswer:
                return CANCEL
            if value is not None:
                content[name] = value
        return {"action": "accept", "content": content}

    async def _ask_field(self, name: str, field: JsonObject, ask: Ask, *, is_needed: bool) -> Any:
        choices = _choices_of(field)
        question = f"{self._server.name}: {_describe(name, field, is_needed=is_needed)}"
        problem = ""
        for _ in range(_TRIES):
            offered = [*choices, *([_SKIP] if choices and not is_needed else [])]
            given = await ask(f"{problem}{question}", offered)
            text = str(given).strip() if given is not None else ""
            if not text or text == _SKIP:
                if "default" in field:
                    return field["default"]
                if not is_needed:
                    return None
                problem = "An answer is needed. "
                continue
            try:
                return _read_value(text, field, choices)
            except ValueError as error:
                problem = f"{error}. "
        raise _NoAnswer


class _NoAnswer(Exception):
    """The user gave no valid answer to a field that is needed."""


def _without_errors(ask: Ask) -> Ask:
    """Return a function that gives no answer where the other one fails: it is the caller's code."""

    async def ask_safely(question: str, choices: list[str]) -> Any:
        try:
            return await ask(question, choices)
        except Exception as problem:
            _log.warning("a question of a server could not be asked (%s)", type(problem).__name__)
            return None

    return ask_safely


async def _choose(ask: Ask, question: str, choices: list[str]) -> str:
    given = await ask(question, choices)
    text = str(given).strip().lower() if given is not None else ""
    yes = text in ("y", "yes", "ok")
    no = text in ("n", "no")
    return next((each for each in choices if each.lower() == text), choices[0] if yes else choices[1] if no else "")


def _title(name: str, field: JsonObject) -> str:
    return clean_line(field.get("title"), 80) or clean_line(name, 80)


def _describe(name: str, field: JsonObject, *, is_needed: bool) -> str:
    kind = str(field.get("type"))
    words = {"integer": "a whole number", "number": "a number", "array": "several, separated by commas"}
    notes = [words[kind]] if kind in words else []
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None or high is not None:
        notes.append(f"{low if low is not None else '...'} to {high if high is not None else '...'}")
    if isinstance(field.get("format"), str):
        notes.append(clean_line(field["format"], 30))
    if "default" in field:
        notes.append(f"empty: {clean_line(msgspec.json.encode(field['default']).decode(), 60)}")
    elif not is_needed:
        notes.append("may be empty")
    about = clean_line(field.get("description"), 300)
    described = f"{_title(name, field)}: {about}" if about else _title(name, field)
    return f"{described} ({', '.join(notes)})" if notes else described


def _choices_of(field: JsonObject) -> list[str]:
    """Return the texts to choose from; those of an enumeration, or yes and no."""
    if field.get("type") == "boolean":
        return ["yes", "no"]
    if field.get("type") == "array":
        return []
    return [label for label, _ in _options_of(field)][:_MOST_CHOICES]


def _options_of(field: JsonObject) -> list[tuple[str, Any]]:
    """Return the options of an enumeration: what is shown, and what is sent."""
    for key in ("oneOf", "anyOf"):
        rows = field.get(key)
        if isinstance(rows, list) and all(isinstance(row, dict) and "const" in row for row in rows):
            return [
                (clean_line(row.get("title"), 100) or clean_line(str(row["const"]), 100), row["const"]) for row in rows
            ]
    values = field.get("enum")
    if not isinstance(values, list):
        return []
    names = field.get("enumNames")
    shown = names if isinstance(names, list) and len(names) == len(values) else values
    return [(clean_line(str(label), 100), value) for label, value in zip(shown, values, strict=True)]


def _read_value(text: str, field: JsonObject, choices: list[str]) -> Any:
    """Return the value of an answer. Raises ValueError, with words for the user."""
    kind = field.get("type")
    if kind == "boolean":
        if text.lower() not in ("yes", "no", "y", "n", "true", "false"):
            raise ValueError("Answer yes or no")
        value: Any = text.lower() in ("yes", "y", "true")
    elif kind == "array":
        value = [_pick(each.strip(), field.get("items", {})) for each in text.split(",") if each.strip()]
    elif choices:
        value = _pick(text, field)
    elif kind in ("integer", "number"):
        try:
            value = int(text) if kind == "integer" else float(text)
        except ValueError:
            raise ValueError("That is not a whole number" if kind == "integer" else "That is not a number") from None
    else:
        value = text
    from jsonschema_rs import ValidationError, validator_for

    try:
        validator_for(field).validate(value)
    except ValidationError as problem:
        raise ValueError(clean_line(problem.message, 200)) from None
    return value


def _pick(text: str, field: Any) -> Any:
    options = _options_of(field) if isinstance(field, dict) else []
    if not options:
        return text
    for label, value in options:
        if text.lower() in (label.lower(), str(value).lower()):
            return value
    raise ValueError(f"{clean_line(text, 60)!r} is not one of {', '.join(label for label, _ in options)}"[:300])
