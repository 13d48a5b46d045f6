"""What the benchmarks of the wires translate: twenty tools, conversations of any length, and a reply with calls."""

from __future__ import annotations

from dragoman.types import JsonObject, Message, Reply, Request, Text, Tool, ToolCall, ToolResult, Usage

MODEL = "model-1"
TOOL_COUNT = 20

_TEXT = {"type": "string"}
_DAY = {"type": "string", "format": "date", "description": "A day, as in 2026-03-01."}
_PAGE = {"type": "integer", "minimum": 1, "maximum": 500, "default": 1, "description": "Which page of the answer."}
_PERSON = {
    "type": "object",
    "description": "Whom it is about.",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "email": {"type": "string", "pattern": "^[^@]+@[^@]+$"},
        "age": {"type": ["integer", "null"], "minimum": 0},
    },
    "required": ["name", "email"],
    "additionalProperties": False,
}
_FILTER = {
    "type": "array",
    "description": "All of these have to hold.",
    "maxItems": 10,
    "items": {
        "type": "object",
        "properties": {
            "field": {"type": "string", "enum": ["name", "owner", "changed", "size", "label"]},
            "operator": {"type": "string", "enum": ["is", "is not", "contains", "before", "after"]},
            "value": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
        },
        "required": ["field", "operator", "value"],
    },
}

# Five shapes of tools as people write them, each used under four names.
_SHAPES: list[tuple[str, str, JsonObject]] = [
    (
        "search",
        "Search the {} and give what was found, newest first.",
        {"query": _TEXT, "filter": _FILTER, "page": _PAGE},
    ),
    ("read", "Read one of the {} as text.", {"path": {"type": "string", "description": "Where it is."}, "page": _PAGE}),
    ("write", "Write one of the {}, in place of what stands there.", {"path": _TEXT, "content": _TEXT, "day": _DAY}),
    ("share", "Share one of the {} with a person.", {"path": _TEXT, "person": _PERSON, "until": _DAY}),
    ("count", "Count the {} between two days.", {"since": _DAY, "until": _DAY, "exact": {"type": "boolean"}}),
]
_THINGS = ("documents", "messages", "orders", "photos")

_SENTENCE = (
    "The tide comes in over the flats at four and the boats that lay on their sides lift one by one until the "
    "harbour is full of masts again and the gulls go back to the wall"
)
_WORDS = _SENTENCE.split()


def words(count: int, start: int = 0) -> list[str]:
    """Words with a space before each, no two neighbours alike, as a model streams them."""
    return [f" {_WORDS[(start + number) % len(_WORDS)]}" for number in range(count)]


def tools() -> list[Tool]:
    made = [
        Tool(
            f"{verb}_{things}",
            description.format(things),
            {"type": "object", "properties": properties, "required": [next(iter(properties))]},
        )
        for things in _THINGS
        for verb, description, properties in _SHAPES
    ]
    assert len(made) == TOOL_COUNT
    return made


def conversation(length: int) -> Request:
    """A request with this many messages: questions, calls (every second time two at once), results and answers."""
    messages = [Message("system", [Text("You keep the archive of a small harbour. Be brief. " + "".join(words(60)))])]
    while len(messages) < length:
        turn = len(messages)
        messages.append(Message("user", [Text("What do we know of" + "".join(words(25, turn)) + "?")]))
        calls = [_call(turn, number) for number in range(1 + turn // 4 % 2)]
        messages.append(Message("assistant", [Text("I will look it up."), *calls]))
        messages.append(Message("tool", [_result(call) for call in calls]))
        messages.append(Message("assistant", [Text("It says:" + "".join(words(40, turn)) + ".")]))
    # The last word is the user's, whatever the length.
    kept = [*messages[: length - 1], Message("user", [Text("And what happened on the day after that?")])]
    return Request(MODEL, kept, tools(), {"max_tokens": 1024, "temperature": 0.5, "tool_choice": "auto"})


def _call(turn: int, number: int) -> ToolCall:
    identity = f"call{turn:03}{number:02}"
    arguments: JsonObject = {
        "query": "".join(words(6, turn)).strip(),
        "filter": [{"field": "changed", "operator": "after", "value": "2026-03-01"}],
        "page": 1 + number,
    }
    return ToolCall(identity, "search_documents", arguments, wire_id=identity)


def _result(call: ToolCall) -> ToolResult:
    found = [{"path": f"log/{number}.txt", "text": "".join(words(12, number)).strip()} for number in range(3)]
    return ToolResult(call.id, call.name, str({"found": found, "pages": 4}).replace("'", '"'))


def reply() -> Reply:
    """A paragraph and two calls."""
    message = Message("assistant", [Text("Let me see." + "".join(words(80))), _call(900, 0), _call(901, 0)])
    return Reply(message, Usage(1200, 140), "tool_calls", model=MODEL, id="reply-1")
