"""Changes to valid requests of Gemini, Ollama, Mistral and Cohere, each with the rule that it breaks."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.edits import Row, all_of, drop, insert, keep, put
from tests.wire.rules.samples import DATA_URL

M, C = "messages", "contents"
_DECLARED = ("tools", 0, "functionDeclarations")
_SCHEMA = (*_DECLARED, 0, "parameters")
_AT = "$.tools[0].functionDeclarations[0].parameters"
_CALLING = ("toolConfig", "functionCallingConfig")


def _city(message: str, **schema: Any) -> Row:
    """A schema for the first property of the first function, and what is wrong with it."""
    return put(schema, *_SCHEMA, "properties", "city"), f"{_AT}.properties.city{message}"


GEMINI: dict[str, Row] = {
    "model in the body": (put("m", "model"), "$: has the unknown key 'model'"),
    "snake case": (put({}, "tool_config"), "$: has the unknown key 'tool_config'"),
    "assistant": (put("assistant", C, 1, "role"), "$.contents[1].role: must be one of user, model, not 'assistant'"),
    "model first": (drop(C, 0), "$.contents[0]: the first content must be from the user"),
    "same role twice": (
        insert({"role": "user", "parts": [{"text": "Hi"}]}, C, 0),
        "$.contents[1]: roles must alternate, but the content before is from the user too",
    ),
    "two user contents after results": (
        lambda body: body[C].extend([{"role": "user", "parts": [{"text": "Hi"}]}] * 2),
        "$.contents[6]: roles must alternate, but the content before is from the user too",
    ),
    "no parts": (put([], C, 0, "parts"), "$.contents[0].parts: must not be an empty array"),
    "empty part": (put({}, C, 0, "parts", 0), "$.contents[0].parts[0]: must hold exactly one of text, functionCall"),
    "empty text": (
        put("", C, 0, "parts", 0, "text"),
        "$.contents[0].parts[0].text: must not be empty unless the part carries a signature",
    ),
    "response missing": (
        drop(C, 4, "parts", 1),
        "$.contents[4]: holds 1 function responses for 2 function calls of the content before",
    ),
    "responses split": (
        lambda body: body[C].append({"role": "user", "parts": [body[C][4]["parts"][1]]}),
        "$.contents[5]: holds 1 function responses for 0 function calls of the content before",
    ),
    "orphan response": (
        put([{"functionResponse": {"name": "chart", "response": {}}}], C, 2, "parts"),
        "$.contents[2]: holds 1 function responses for 0 function calls of the content before",
    ),
    "calls at the end": (keep(4, C), "$.contents[3]: its function calls are not answered by a following content"),
    "wrong name": (
        put("chart", C, 4, "parts", 0, "functionResponse", "name"),
        "$.contents[4]: function response 0 is named 'chart', its call 'weather'",
    ),
    "wrong id": (
        put("b", C, 4, "parts", 0, "functionResponse", "id"),
        "$.contents[4]: function response 0 has the id 'b', its call 'a'",
    ),
    "repeated id": (
        all_of(
            put("a", C, 3, "parts", 2, "functionCall", "id"),
            put("a", C, 4, "parts", 1, "functionResponse", "id"),
        ),
        "$.contents[4]: repeats the call id 'a'",
    ),
    "text among responses": (
        insert({"text": "Well?"}, C, 4, "parts", 2),
        "$.contents[4].parts[2]: text may not be mixed into a turn of function responses",
    ),
    "call by the user": (
        insert({"functionCall": {"name": "now"}}, C, 2, "parts", 0),
        "$.contents[2].parts[0]: a user content may not hold a functionCall",
    ),
    "string args": (
        put("{}", C, 3, "parts", 1, "functionCall", "args"),
        "$.contents[3].parts[1].functionCall.args: must be an object",
    ),
    "string response": (
        put("rain", C, 4, "parts", 0, "functionResponse", "response"),
        "$.contents[4].parts[0].functionResponse.response: must be an object",
    ),
    "name with a leading digit": (
        put("1a", *_DECLARED, 2, "name"),
        "$.tools[0].functionDeclarations[2].name: must match [a-zA-Z_][a-zA-Z0-9_.:-]*, not '1a'",
    ),
    "image as data URL": (
        put(DATA_URL, C, 2, "parts", 1, "inlineData", "data"),
        "$.contents[2].parts[1].inlineData.data: must be base64",
    ),
    "image without type": (
        drop(C, 2, "parts", 1, "inlineData", "mimeType"),
        "$.contents[2].parts[1].inlineData: lacks the required key 'mimeType'",
    ),
    "audio in a response": (
        put("audio/wav", C, 4, "parts", 0, "functionResponse", "parts", 0, "inlineData", "mimeType"),
        "$.contents[4].parts[0].functionResponse.parts: audio/wav may not stand inside a function response",
    ),
    "signature of another": (
        put("no base64!", C, 3, "parts", 1, "thoughtSignature"),
        "$.contents[3].parts[1].thoughtSignature: must be base64",
    ),
    "no declarations": (
        all_of(put([], *_DECLARED), drop("toolConfig")),
        "$.tools[0].functionDeclarations: must not be an empty array",
    ),
    "empty tool": (insert({}, "tools", 1), "$.tools[1]: must not be an empty object"),
    "two tool objects": (
        insert({"functionDeclarations": [{"name": "more"}]}, "tools", 1),
        "$.tools: must hold all functionDeclarations in one object",
    ),
    "same name twice": (
        put("chart", *_DECLARED, 2, "name"),
        "$.tools[0].functionDeclarations[2]: repeats the function name 'chart'",
    ),
    "both schemas": (
        put({"type": "object"}, *_DECLARED, 0, "parametersJsonSchema"),
        "$.tools[0].functionDeclarations[0]: has both parameters and parametersJsonSchema",
    ),
    "names without force": (
        put("AUTO", *_CALLING, "mode"),
        "$.toolConfig.functionCallingConfig: allowedFunctionNames are only allowed with the modes ANY and VALIDATED",
    ),
    "lower-case mode": (
        put("any", *_CALLING, "mode"),
        "$.toolConfig.functionCallingConfig.mode: must be one of AUTO, ANY, NONE, VALIDATED, not 'any'",
    ),
    "name not declared": (
        put(["nothing"], *_CALLING, "allowedFunctionNames"),
        "$.toolConfig.functionCallingConfig.allowedFunctionNames: names the tool 'nothing', which is not offered",
    ),
    "force without functions": (
        all_of(drop("tools"), drop(*_CALLING, "allowedFunctionNames")),
        "$.toolConfig.functionCallingConfig: forces function calls, but no function is declared",
    ),
    "cache": (
        all_of(put("cachedContents/a", "cachedContent"), drop("tools"), drop("toolConfig")),
        "$.systemInstruction: must live in the cache when cachedContent is given",
    ),
    "two measures of thinking": (
        put(100, "generationConfig", "thinkingConfig", "thinkingBudget"),
        "$.generationConfig.thinkingConfig: has both thinkingBudget and thinkingLevel",
    ),
    "schema root": (put({"type": "STRING"}, *_SCHEMA), f"{_AT}: must have the root type OBJECT"),
    "schema without properties": (
        put({"type": "OBJECT"}, *_SCHEMA),
        f"{_AT}: must be left out for a function without parameters",
    ),
    "name of a parameter": (
        put({"type": "STRING"}, *_SCHEMA, "properties", "user-id"),
        f"{_AT}.properties: the parameter name 'user-id' must match [a-zA-Z_][a-zA-Z0-9_]{{0,63}}",
    ),
    "required but undefined": (
        put(["town"], *_SCHEMA, "required"),
        f"{_AT}.required: names the property 'town', which is not defined",
    ),
    "lower-case type": _city(".type: must be one of STRING, NUMBER", type="string"),
    "type array": _city(".type: must be one of STRING, NUMBER", type=["STRING", "NULL"]),
    "no type": _city(": lacks the required key 'type'", description="Where"),
    "number enum": _city(".enum[0]: must be a string", type="STRING", enum=[1]),
    "enum of a number": _city(".enum: is only allowed for the type STRING", type="INTEGER", enum=["1"]),
    "array without items": _city(": is an ARRAY and so needs items", type="ARRAY"),
    "format of a string": _city(".format: must be enum or date-time for the type STRING", type="STRING", format="uri"),
    "empty properties": _city(".properties: must not be empty", type="OBJECT", properties={}),
    "schema that is no schema": (put(True, *_SCHEMA), f"{_AT}: must be a schema object"),
    "empty anyOf": _city(".anyOf: must be an array that is not empty", anyOf=[]),
    "wrong inside anyOf": _city(".anyOf[0].type: must be one of", anyOf=[{"type": "string"}]),
    "wrong inside items": _city(".items: is an ARRAY and so needs items", type="ARRAY", items={"type": "ARRAY"}),
    **{
        f"keyword {key}": _city(f": has the unknown key {key!r}", type="STRING", **{key: {}})
        for key in ("additionalProperties", "const", "oneOf", "allOf", "not", "$schema", "exclusiveMinimum", "$ref")
    },
}

OLLAMA: dict[str, Row] = {
    "tool_choice": (put("auto", "tool_choice"), "$: has the unknown key 'tool_choice'"),
    "content parts": (put([], M, 1, "content"), "$.messages[1].content: must be a string"),
    "neither text nor calls": (
        all_of(drop(M, 2, "tool_calls"), drop(M, 2, "content"), keep(3, M)),
        "$.messages[2]: needs content, for it makes no calls",
    ),
    "string arguments": (
        put("{}", M, 2, "tool_calls", 0, "function", "arguments"),
        "$.messages[2].tool_calls[0].function.arguments: must be an object",
    ),
    "image as data URL": (put(DATA_URL, M, 1, "images", 0), "$.messages[1].images[0]: must be base64"),
    "result without name": (drop(M, 3, "tool_name"), "$.messages[3]: lacks the required key 'tool_name'"),
    "result missing": (drop(M, 4), "$.messages[2]: makes 2 calls, but 1 tool messages follow it"),
    "orphan result": (
        insert({"role": "tool", "content": "", "tool_name": "chart"}, M, 2),
        "$.messages[2]: is a tool message that follows no calls",
    ),
    "results out of order": (
        put("weather", M, 4, "tool_name"),
        "$.messages[4]: has the tool_name 'weather', its call is of 'chart'",
    ),
    "unknown id": (
        put("x", M, 3, "tool_call_id"),
        "$.messages[3]: answers the call 'x', which the preceding message does not make",
    ),
    "repeated id": (
        all_of(put("call_1", M, 2, "tool_calls", 1, "id"), drop(M, 3, "tool_call_id")),
        "$.messages[2].tool_calls: repeats the call id 'call_1'",
    ),
    "index": (
        put(0, M, 2, "tool_calls", 1, "function", "index"),
        "$.messages[2].tool_calls: the indexes must count from 0, not [0, 0]",
    ),
    "strict tool": (put(True, "tools", 0, "function", "strict"), "$.tools[0].function: has the unknown key 'strict'"),
    "same name twice": (put("weather", "tools", 1, "function", "name"), "$.tools[1]: repeats the tool name 'weather'"),
    "keep_alive": (put([], "keep_alive"), "$.keep_alive: must be a number of seconds or a duration"),
    "think": (put("lots", "think"), "$.think: must be one of low, medium, high, max, not 'lots'"),
}

MISTRAL: dict[str, Row] = {
    "unknown key": (put(1, "max_completion_tokens"), "$: has the unknown key 'max_completion_tokens'"),
    "developer": (
        put("developer", M, 0, "role"),
        "$.messages[0]: has the role 'developer', but only system, user, assistant, tool may stand here",
    ),
    "id of OpenAI": (
        put("call_1234", M, 2, "tool_calls", 0, "id"),
        "$.messages[2].tool_calls[0].id: must match 9 letters and digits, not 'call_1234'",
    ),
    "id of a result": (
        put("abc", M, 3, "tool_call_id"),
        "$.messages[3].tool_call_id: must match 9 letters and digits, not 'abc'",
    ),
    "array arguments": (
        put("[]", M, 2, "tool_calls", 0, "function", "arguments"),
        "$.messages[2].tool_calls[0].function.arguments: must be the JSON text of an object",
    ),
    "result missing": (
        drop(M, 4),
        "$.messages[2].tool_calls[1]: the call 'abc123DEG' is not answered by a tool message right after this message",
    ),
    "orphan result": (
        put({"role": "tool", "tool_call_id": "000000000", "content": ""}, M, 6),
        "$.messages[6]: answers the call '000000000', which the preceding assistant message does not make",
    ),
    "user after tool": (drop(M, 5), "$.messages[5]: a user message may not follow a tool message"),
    "system later": (
        insert({"role": "system", "content": "Hm."}, M, 6),
        "$.messages[6]: a system message may only be the first message",
    ),
    "assistant last": (
        keep(6, M),
        "$.messages[5]: the last message must be from the user or a tool, or be a prefix",
    ),
    "neither text nor calls": (put("", M, 5, "content"), "$.messages[5]: needs content or calls"),
    "thinking as text": (
        put("Ask both.", M, 2, "content", 0, "thinking"),
        "$.messages[2].content[0].thinking: must be an array",
    ),
    "unknown choice": (
        put("forced", "tool_choice"),
        "$.tool_choice: must be one of auto, none, any, required, not 'forced'",
    ),
    "choice not offered": (
        put("nothing", "tool_choice", "function", "name"),
        "$.tool_choice: names the tool 'nothing', which is not offered",
    ),
    "tool without parameters": (
        drop("tools", 0, "function", "parameters"),
        "$.tools[0].function: lacks the required key 'parameters'",
    ),
    "same name twice": (put("weather", "tools", 1, "function", "name"), "$.tools[1]: repeats the tool name 'weather'"),
}

COHERE: dict[str, Row] = {
    "parallel flag": (put(False, "parallel_tool_calls"), "$: has the unknown key 'parallel_tool_calls'"),
    "strict tool": (put(True, "tools", 0, "function", "strict"), "$.tools[0].function: has the unknown key 'strict'"),
    "choice of OpenAI": (put("auto", "tool_choice"), "$.tool_choice: must be one of REQUIRED, NONE, not 'auto'"),
    "choice without tools": (drop("tools"), "$.tool_choice: is only allowed when tools are offered"),
    "object arguments": (
        put({}, M, 2, "tool_calls", 0, "function", "arguments"),
        "$.messages[2].tool_calls[0].function.arguments: must be a string of JSON",
    ),
    "image in a result": (
        put([{"type": "image_url", "image_url": {"url": DATA_URL}}], M, 4, "content"),
        "$.messages[4].content[0]: has the type 'image_url', but only text, document may stand here",
    ),
    "document without data": (
        drop(M, 3, "content", 0, "document", "data"),
        "$.messages[3].content[0].document: lacks the required key 'data'",
    ),
    "result missing": (
        drop(M, 3),
        "$.messages[2].tool_calls[0]: the call 'weather_1' is not answered by a tool message right after this message",
    ),
    "orphan result": (
        insert({"role": "tool", "tool_call_id": "x", "content": "a"}, M, 1),
        "$.messages[1]: answers the call 'x', which the preceding assistant message does not make",
    ),
    "plan without calls": (
        all_of(drop(M, 2, "tool_calls"), keep(3, M)),
        "$.messages[2]: has a tool_plan, but makes no calls",
    ),
    "neither text nor calls": (
        insert({"role": "assistant", "content": ""}, M, 5),
        "$.messages[5]: needs content or calls",
    ),
    "same name twice": (put("weather", "tools", 1, "function", "name"), "$.tools[1]: repeats the tool name 'weather'"),
}
