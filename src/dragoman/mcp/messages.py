"""JSON-RPC messages: written, and read from a stranger."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.mcp.errors import METHOD_NOT_FOUND, Refusal
from dragoman.mcp.texts import clean_line
from dragoman.types import JsonObject

_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder().decode
# Every escape is matched, so that a backslash which is itself escaped begins none.
_escapes = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
).sub


class NoMessage(ValueError):
    """Bytes that are no message of JSON-RPC."""


def request(identity: int, method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def notification(method: str, params: JsonObject | None = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def write(message: JsonObject) -> bytes:
    """One message as one line, without its end."""
    return _write(message)


def read(data: bytes | str) -> list[JsonObject]:
    """The messages in some bytes: one, or several where a server sends a batch. Raises NoMessage."""
    found = _read_json(data.encode("utf-8", "replace") if isinstance(data, str) else data)
    messages = found if isinstance(found, list) else [found]
    for message in messages:
        why = _fault_of(message)
        if why:
            raise NoMessage(f"no JSON-RPC: {why}")
    return messages


def _read_json(data: bytes, *, is_mended: bool = False) -> Any:
    try:
        return _read(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        if "surrogate" in str(problem) and not is_mended:
            # Half a character, from a server that cuts text where it likes: no reason to do without the rest.
            return _read_json(_escapes(_whole_escape, data), is_mended=True)
        raise NoMessage(f"no JSON: {clean_line(str(problem), 120)}") from None


def _whole_escape(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] is None else b"\\ufffd"


def _fault_of(message: Any) -> str:
    if not isinstance(message, dict):
        return "not an object"
    if message.get("jsonrpc") != "2.0":
        return 'it does not say "jsonrpc": "2.0"'
    if "method" in message:
        return "" if isinstance(message["method"], str) else "a method that is no text"
    if "result" in message or "error" in message:
        return ""
    return "neither a method nor a result"


def is_answer(message: JsonObject) -> bool:
    return "method" not in message


def result_of(message: JsonObject) -> JsonObject:
    """The result of an answer. Raises Refusal where the answer is an error."""
    error = message.get("error")
    if error is None:
        result = message.get("result")
        return result if isinstance(result, dict) else {}
    if not isinstance(error, dict):
        raise Refusal(0, clean_line(str(error)))
    code = error.get("code")
    raise Refusal(code if isinstance(code, int) else 0, clean_line(error.get("message")), error.get("data"))


def reply_to(message: JsonObject) -> JsonObject:
    """What a request of the server is answered with: this client lends it no model, no files and no person."""
    head: JsonObject = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "ping":
        return {**head, "result": {}}
    if message["method"] == "roots/list":
        return {**head, "result": {"roots": []}}
    return {**head, "error": {"code": METHOD_NOT_FOUND, "message": "this client does not offer it"}}
