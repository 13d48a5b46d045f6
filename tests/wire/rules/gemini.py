"""The rules of a request to Gemini's generateContent."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.rules.options import Options
from tests.wire.rules.schemas import gemini_schema, object_schema
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    base64_text,
    boolean,
    both,
    by_key,
    integer,
    mapping,
    must_be_offered,
    numeric,
    one_of,
    pad,
    record,
    text,
    unique,
)

NAME = text(pattern=r"[a-zA-Z_][a-zA-Z0-9_.:-]*", most=128, least=1)
WORD: Check = text(least=1)
_URL_SAFE = str.maketrans("-_", "+/")
_STAND_IN = "skip_thought_signature_validator"
_MEDIA_OF_RESULTS = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def _signature(value: Any, spot: Spot) -> None:
    """A thought signature: base64 in either alphabet, or the agreed word for calls that Gemini did not make."""
    if value != _STAND_IN:
        base64_text(value.translate(_URL_SAFE) if isinstance(value, str) else value, spot)


_INLINE = record({"mimeType": text(pattern=r"[a-z]+/.+", why="a media type"), "data": base64_text}, pad("displayName"))
_STORED = record({"fileUri": WORD}, {"mimeType": WORD, **pad("displayName")})
_CALL = record({"name": NAME}, {"id": WORD, "args": mapping})
_ANSWER = record(
    {"name": NAME, "response": mapping},
    {
        "id": WORD,
        "parts": array(by_key({"inlineData": _INLINE, "fileData": _STORED}), least=1),
        **pad("willContinue", "scheduling"),
    },
)
_PART_KINDS: dict[str, Check] = {
    "text": text(),
    "functionCall": _CALL,
    "functionResponse": _ANSWER,
    "inlineData": _INLINE,
    "fileData": _STORED,
    **dict.fromkeys(("executableCode", "codeExecutionResult", "toolCall", "toolResponse"), mapping),
}
_BESIDE = {
    "thought": boolean,
    "thoughtSignature": _signature,
    **pad("videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata"),
}


def _empty_text(value: Any, spot: Spot) -> None:
    if value.get("text") == "" and "thoughtSignature" not in value:
        spot.at("text").say("must not be empty unless the part carries a signature")


_PART = both(by_key(_PART_KINDS, beside=_BESIDE), _empty_text)
_CONTENT = record({"role": one_of("user", "model"), "parts": array(_PART, least=1)})
_SYSTEM = record({"parts": array(record({"text": text(blank=False)}), least=1)}, {"role": one_of("system", "user")})


def _one_form(value: Any, spot: Spot) -> None:
    for one, other in (("parameters", "parametersJsonSchema"), ("response", "responseJsonSchema")):
        if one in value and other in value:
            spot.say(f"has both {one} and {other}, which exclude each other")


_DECLARATION = both(
    record(
        {"name": NAME},
        {
            "description": text(),
            "parameters": gemini_schema,
            "parametersJsonSchema": object_schema,
            **pad("response", "responseJsonSchema", "behavior"),
        },
    ),
    _one_form,
)
_BUILT_IN = [
    "googleSearch",
    "googleSearchRetrieval",
    "googleMaps",
    "codeExecution",
    "urlContext",
    "computerUse",
    "fileSearch",
    "retrieval",
    "enterpriseWebSearch",
    "exaAiSearch",
    "parallelAiSearch",
    "mcpServers",
]
_TOOL = record({}, {"functionDeclarations": array(_DECLARATION, least=1), **pad(*_BUILT_IN)})
_CALLING = record(
    {},
    {
        "mode": one_of("AUTO", "ANY", "NONE", "VALIDATED"),
        "allowedFunctionNames": array(NAME, least=1),
        "streamFunctionCallArguments": boolean,
    },
)
_TOOL_CONFIG = record(
    {},
    {"functionCallingConfig": _CALLING, "includeServerSideToolInvocations": boolean, "retrievalConfig": mapping},
)


def _one_measure(value: Any, spot: Spot) -> None:
    if "thinkingBudget" in value and "thinkingLevel" in value:
        spot.say("has both thinkingBudget and thinkingLevel, which exclude each other")


_THINKING = both(
    record(
        {},
        {
            "includeThoughts": boolean,
            "thinkingBudget": integer(-1),
            "thinkingLevel": one_of("MINIMAL", "LOW", "MEDIUM", "HIGH"),
        },
    ),
    _one_measure,
)
_GENERATION = record(
    {},
    {
        "thinkingConfig": _THINKING,
        **dict.fromkeys(("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty"), numeric),
        "maxOutputTokens": integer(1),
        "candidateCount": integer(1),
        "seed": integer(-(2**31)),
        "stopSequences": array(text()),
        "responseMimeType": text(),
        **pad("responseSchema", "responseJsonSchema", "responseFormat", "responseModalities", "responseLogprobs"),
        **pad("logprobs", "speechConfig", "mediaResolution", "audioTimestamp", "enableEnhancedCivicAnswers"),
        **pad("routingConfig", "modelSelectionConfig"),
    },
)
_REQUEST = record(
    {"contents": array(_CONTENT, least=1)},
    {
        "tools": array(_TOOL),
        "toolConfig": _TOOL_CONFIG,
        "systemInstruction": _SYSTEM,
        "generationConfig": _GENERATION,
        "cachedContent": text(pattern=r"(.*/)?cachedContents/.+", why="cachedContents/…"),
        **pad("safetySettings", "labels", "serviceTier", "store"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    contents, place = body["contents"], spot.at("contents")
    if contents[0]["role"] != "user":
        place.at(0).say("the first content must be from the user")
    _check_turns(contents, place)
    _check_roles(contents, place)
    _check_tools(body, spot, options.model)
    _check_cache(body, spot)
    if _generation(options.model) >= 3:
        _check_signatures(contents, place)
    _check_media(contents, place, options.model)


def _generation(model: str) -> int:
    """The generation of a Gemini model, 0 when it is not known."""
    found = re.search(r"gemini-(\d+)", model)
    return int(found[1]) if found else 0


def _of(content: dict[str, Any], kind: str) -> list[tuple[int, dict[str, Any]]]:
    return [(position, part[kind]) for position, part in enumerate(content["parts"]) if kind in part]


def _check_roles(contents: list[dict[str, Any]], spot: Spot) -> None:
    """Which parts each role may hold, and that no text is mixed into a turn of results."""
    for position, content in enumerate(contents):
        foreign = "functionResponse" if content["role"] == "model" else "functionCall"
        for number, _ in _of(content, foreign):
            spot.at(position, "parts", number).say(f"a {content['role']} content may not hold a {foreign}")
        if _of(content, "functionResponse"):
            for number, _ in _of(content, "text"):
                spot.at(position, "parts", number).say("text may not be mixed into a turn of function responses")


def _check_turns(contents: list[dict[str, Any]], spot: Spot) -> None:
    """Roles alternate; a turn of calls is followed by one turn with as many responses, in the same order.

    One pair of neighbours may have the same role: what the user says right after results cannot stand in the turn
    of the results, so it is a user content of its own.
    """
    before: dict[str, Any] = {"role": "", "parts": []}
    for position, content in enumerate(contents):
        place = spot.at(position)
        calls = _of(before, "functionCall") if before["role"] == "model" else []
        answers = _of(content, "functionResponse") if content["role"] == "user" else []
        said_after_results = content["role"] == "user" and bool(_of(before, "functionResponse"))
        if content["role"] == before["role"] and not said_after_results:
            place.say(f"roles must alternate, but the content before is from the {content['role']} too")
        if answers or calls:
            _check_answers([call for _, call in calls], [answer for _, answer in answers], place)
        before = content
    if _of(before, "functionCall"):
        spot.at(len(contents) - 1).say("its function calls are not answered by a following content")


def _check_answers(calls: list[dict[str, Any]], answers: list[dict[str, Any]], spot: Spot) -> None:
    if len(calls) != len(answers):
        spot.say(f"holds {len(answers)} function responses for {len(calls)} function calls of the content before")
        return
    for number, (call, answer) in enumerate(zip(calls, answers, strict=True)):
        if call["name"] != answer["name"]:
            spot.say(f"function response {number} is named {answer['name']!r}, its call {call['name']!r}")
        if call.get("id") != answer.get("id"):
            spot.say(f"function response {number} has the id {answer.get('id')!r}, its call {call.get('id')!r}")
    given = [call["id"] for call in calls if "id" in call]
    unique(given, [spot] * len(given), "call id")


def _check_signatures(contents: list[dict[str, Any]], spot: Spot) -> None:
    """Gemini 3: the first call of every step of the current turn carries its signature."""
    start = 0
    for position, content in enumerate(contents):
        if content["role"] == "user" and not _of(content, "functionResponse"):
            start = position
    for position in range(start, len(contents)):
        calls = _of(contents[position], "functionCall")
        if calls and "thoughtSignature" not in contents[position]["parts"][calls[0][0]]:
            spot.at(position, "parts", calls[0][0]).say("the first function call of a step needs its thoughtSignature")


def _check_media(contents: list[dict[str, Any]], spot: Spot, model: str) -> None:
    """Files inside a function response: from Gemini 3 on, and only of some types."""
    for position, content in enumerate(contents):
        for number, answer in _of(content, "functionResponse"):
            place = spot.at(position, "parts", number, "functionResponse", "parts")
            if "parts" in answer and 0 < _generation(model) < 3:
                place.say(f"{model} takes no files inside a function response")
            for part in answer.get("parts", []):
                kind = next(iter(part.values())).get("mimeType", "image/png")
                if kind not in _MEDIA_OF_RESULTS:
                    place.say(f"{kind} may not stand inside a function response")


def _check_tools(body: dict[str, Any], spot: Spot, model: str) -> None:
    tools = body.get("tools", [])
    holders = [position for position, tool in enumerate(tools) if "functionDeclarations" in tool]
    for position, tool in enumerate(tools):
        if not tool:
            spot.at("tools", position).say("must not be an empty object")
    if len(holders) > 1:
        spot.at("tools").say("must hold all functionDeclarations in one object")
    if holders and 0 < _generation(model) < 3 and any(set(tool) - {"functionDeclarations"} for tool in tools):
        spot.at("tools").say(f"{model} does not take functions and built-in tools together")
    names, places = [], []
    for holder in holders:
        for number, declaration in enumerate(tools[holder]["functionDeclarations"]):
            names.append(declaration["name"])
            places.append(spot.at("tools", holder, "functionDeclarations", number))
    unique(names, places, "function name")
    _check_calling(body, spot, names)


def _check_calling(body: dict[str, Any], spot: Spot, names: list[str]) -> None:
    config = body.get("toolConfig", {}).get("functionCallingConfig", {})
    place = spot.at("toolConfig", "functionCallingConfig")
    forced = config.get("mode") in {"ANY", "VALIDATED"}
    if forced and not names:
        place.say("forces function calls, but no function is declared")
    if "allowedFunctionNames" in config and not forced:
        place.say("allowedFunctionNames are only allowed with the modes ANY and VALIDATED")
    for name in config.get("allowedFunctionNames", []):
        must_be_offered(name, names, place.at("allowedFunctionNames"))


def _check_cache(body: dict[str, Any], spot: Spot) -> None:
    for key in ("tools", "toolConfig", "systemInstruction"):
        if "cachedContent" in body and key in body:
            spot.at(key).say("must live in the cache when cachedContent is given")
