"""What a server of Gemini's generateContent sends."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.gemini import NAME
from tests.wire.rules.served.common import DONE, WORD, Frame, judge_frames, loose
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    base64_text,
    boolean,
    by_key,
    integer,
    mapping,
    one_of,
    text,
    unique,
)

_REASONS = one_of(
    *("STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "CONTINUATION"),
    *("NO_IMAGE", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
)
_PART = by_key(
    {
        "text": text(),
        "functionCall": loose({"name": NAME}, {"id": WORD, "args": mapping}),
        **dict.fromkeys(
            ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"), mapping
        ),
    },
    beside={"thought": boolean, "thoughtSignature": base64_text},
)
_CANDIDATE = loose(
    {},
    {
        "content": loose({}, {"role": one_of("model"), "parts": array(_PART, least=1)}),
        "finishReason": _REASONS,
        "index": integer(),
    },
)
_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
_USAGE = loose(
    {"promptTokenCount": integer(), "totalTokenCount": integer()},
    dict.fromkeys((*_COUNTS[1:], "cachedContentTokenCount"), integer()),
)


def _usage(value: Any, spot: Spot) -> None:
    before = len(spot.found)
    _USAGE(value, spot)
    if len(spot.found) == before and value["totalTokenCount"] != sum(value.get(key, 0) for key in _COUNTS):
        spot.at("totalTokenCount").say("must be the sum of the prompt, the candidates, the thoughts and the tool use")


_REPLY = loose(
    {},
    {
        "candidates": array(_CANDIDATE, least=1),
        "promptFeedback": loose({"blockReason": WORD}),
        "usageMetadata": _usage,
        "modelVersion": text(),
        "responseId": text(),
    },
)
_ERROR = loose({"error": loose({"code": integer(400), "message": text(), "status": WORD})})


def _calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [part for candidate in body.get("candidates", []) for part in candidate.get("content", {}).get("parts", [])]
    return [part["functionCall"] for part in parts if "functionCall" in part]


def _unique_ids(calls: list[dict[str, Any]], spot: Spot) -> None:
    identities = [call["id"] for call in calls if "id" in call]
    unique(identities, [spot] * len(identities), "call id")


def _blocked(body: dict[str, Any]) -> bool:
    return "promptFeedback" in body and "candidates" not in body


def reply(body: dict[str, Any], spot: Spot) -> None:
    """Judge a whole reply."""
    if "error" in body:
        _ERROR(body, spot)
        return
    _REPLY(body, spot)
    if spot.found or _blocked(body):
        return
    if "candidates" not in body:
        spot.say("has neither candidates nor a reason for blocking")
    if "usageMetadata" not in body:
        spot.say("lacks the required key 'usageMetadata'")
    for position, candidate in enumerate(body.get("candidates", [])):
        if "finishReason" not in candidate:
            spot.at("candidates", position).say("lacks the required key 'finishReason'")
        if candidate.get("finishReason") == "STOP" and "content" not in candidate:
            spot.at("candidates", position).say("lacks the required key 'content'")
    _unique_ids(_calls(body), spot)


def stream(frames: list[Frame], spot: Spot) -> None:
    """Judge a stream of chunks."""

    def shape(data: dict[str, Any]) -> Check | None:
        return _ERROR if "error" in data else _REPLY

    for position, (event, data) in enumerate(frames):
        if data == DONE:
            spot.at(position).say("there is no [DONE] in this API")
        if event not in {None, "message"}:
            spot.at(position).say("must not have the name of an event")
    if not judge_frames(frames, spot, shape) or _blocked(frames[0][1]):
        return
    last = len(frames) - 1
    failed = [position for position, (_, data) in enumerate(frames) if "error" in data]
    if failed:
        if failed != [last]:
            spot.at(failed[0] + 1).say("stands after an error")
        return
    for position, (_, data) in enumerate(frames):
        reasons = [candidate.get("finishReason") for candidate in data.get("candidates", [])]
        if position < last and any(reasons):
            spot.at(position).say("only the last chunk may have a finishReason")
        if position == last and not any(reasons):
            spot.at(position).say("the last chunk must have a finishReason")
    if "usageMetadata" not in frames[-1][1]:
        spot.at(last).say("the last chunk must have usageMetadata")
    _unique_ids([call for _, data in frames for call in _calls(data)], spot)
