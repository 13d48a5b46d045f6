"""Calls whose arguments come in pieces, each with its JSON path, as Vertex streams them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.replies import fold
from dragoman.stage import collect
from dragoman.types import Reply
from dragoman.wire import registry
from dragoman.wire.gemini.client import read_path

GEMINI = registry.get("gemini")


def read(*parts: dict[str, Any], finish: bool = True) -> Reply:
    """The reply in a stream of these parts, one chunk each."""
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    if finish:
        chunks.append({"candidates": [{"finishReason": "STOP"}]})  # type: ignore[dict-item]
    pieces = [b"data: " + msgspec.json.encode(entry) + b"\n\n" for entry in chunks]
    return fold(collect(GEMINI.reply_stream(), pieces))


def piece(*arguments: dict[str, Any], **fields: Any) -> dict[str, Any]:
    own = {"thoughtSignature": fields.pop("signature")} if "signature" in fields else {}
    partial = {"partialArgs": list(arguments)} if arguments else {}
    return {"functionCall": {**partial, **fields}, **own}


def text(path: str, value: str, *, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": value, **({"willContinue": True} if more else {})}


def test_arguments_are_put_together() -> None:
    reply = read(
        piece(name="light", id="v1", willContinue=True, signature="c2ln"),
        piece({"jsonPath": "$.brightness", "numberValue": 50}, willContinue=True),
        piece(text("$.color", "wa", more=True), willContinue=True),
        piece(text("$.color", "rm", more=True), willContinue=True),
        piece(text("$.color", ""), willContinue=True),
        piece(
            {"jsonPath": "$.on", "boolValue": True},
            {"jsonPath": "$.timer", "nullValue": "NULL_VALUE"},
            willContinue=True,
        ),
        piece(text("$.rooms[0].name", "hall"), text("$.rooms[1]['na me']", "attic"), willContinue=True),
        piece(),
    )
    [made] = reply.calls
    assert (made.id, made.name) == ("v1", "light")
    assert made.arguments == {
        "brightness": 50,
        "color": "warm",
        "on": True,
        "timer": None,
        "rooms": [{"name": "hall"}, {"na me": "attic"}],
    }
    assert made.extra == {"gemini": {"thought_signature": "c2ln"}}
    assert reply.stop == "tool_calls"


def test_one_chunk_may_hold_it_all() -> None:
    [made] = read(piece(text("$.a", "b"), name="f")).calls
    assert made.arguments == {"a": "b"}


def test_a_call_without_arguments() -> None:
    [made] = read(piece(name="ping", willContinue=True), piece()).calls
    assert made.arguments == {}


def test_the_next_call_ends_the_one_before_it() -> None:
    calls = read(
        piece(text("$.a", "1"), name="f", willContinue=True),
        piece(text("$.a", "2"), name="f", willContinue=True),
        piece(),
        {"functionCall": {"name": "g", "args": {"whole": True}}},
    ).calls
    assert [(made.name, made.arguments) for made in calls] == [
        ("f", {"a": "1"}),
        ("f", {"a": "2"}),
        ("g", {"whole": True}),
    ]


@pytest.mark.parametrize(
    "parts",
    [
        (piece(name="f", willContinue=True),),
        (piece(text("$.a", "b"), name="f", willContinue=True),),
        (piece(text("$.a", "b", more=True), name="f", willContinue=True), {"text": "And so"}),
        (piece(text("$.a[5]", "b"), name="f"),),
        (piece(text("$.a[999999999]", "b"), name="f"),),
        (piece(text("$.a", "b"), text("$.a.c", "d"), name="f"),),
        (piece(text("a", "b"), name="f"),),
        (piece(text("$", "b"), name="f"),),
        (piece(text("$" + ".a" * 1000, "b"), name="f"),),
    ],
)
def test_a_call_that_was_not_finished_or_fits_nowhere_is_no_call(parts: tuple[dict[str, Any], ...]) -> None:
    reply = read(*parts)
    assert reply.calls == []
    assert [broken.name for broken in reply.invalid] == ["f"]
    assert reply.failure is None


def test_a_cut_stream_completes_nothing() -> None:
    reply = read(piece(text("$.a", "b"), name="f"), finish=False)
    assert reply.calls == []


def test_a_long_text_in_many_pieces() -> None:
    count = 20_000
    pieces = [piece(text("$.a", "xy", more=True), willContinue=True) for _ in range(count)]
    [made] = read(piece(name="f", willContinue=True), *pieces, piece()).calls
    assert made.arguments == {"a": "xy" * count}


def test_what_the_body_held_is_not_changed() -> None:
    part = {"functionCall": {"name": "f", "args": {"a": {"b": 1}}, "partialArgs": [text("$.a.c", "d")]}}
    body = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    before = msgspec.json.encode(body)
    [made] = GEMINI.decode_reply(body).calls
    assert made.arguments == {"a": {"b": 1, "c": "d"}}
    assert msgspec.json.encode(body) == before


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ["a"]),
        ("$.a.b[0][12]", ["a", "b", 0, 12]),
        ("$['a b'][\"c\"]", ["a b", "c"]),
        (r"$['it\'s']", ["it's"]),
        ("$", None),
        ("", None),
        ("a.b", None),
        ("$..a", None),
        ("$.a[-1]", None),
        ("$.a[", None),
    ],
)
def test_paths(path: str, steps: list[str | int] | None) -> None:
    assert read_path(path) == steps
