"""Servers for the doctor: one that does everything right, and ways to make it do one thing wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from dragoman import formats
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts
from dragoman.doctor import Prober, Report, admit, examine
from dragoman.providers import Endpoint
from dragoman.testing import Answer, ScriptedModel, call, scripted_endpoint
from dragoman.testing.script import Scripted, ScriptedResponse
from dragoman.types import Message, Reply, Request, Text, ToolCall, ToolResult, Usage

GRAMMAR_FIELD = "grammar"
MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model", "max_model_len": 32768}]}
COUNTED = Usage(20, 10)
BOOKED = {"people": 4, "area": "terrace", "guest": {"name": "Ada Lee"}, "dishes": ["soup", "bread"]}

Answering = Callable[[Request, dict[str, Any]], Scripted]
"""What a server answers: the request in neutral form, and its body as it came."""


def answer_well(request: Request, body: dict[str, Any]) -> Scripted:
    """A server that does what it is asked, and a model that understands everything."""
    if GRAMMAR_FIELD in body:
        return "heron-42"
    if request.options.get("response_format"):
        return json.dumps({"city": "Lisbon", "people": 545_000})
    limit = request.options.get("max_tokens")
    if limit is not None and limit < 100:
        return Reply(Message("assistant", [Text("1 2 3 4 5 6 7 8")]), Usage(20, limit), "length")
    results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
    if results:
        return f"I have it: {results[-1].content}"
    if request.tools:
        return call_natively(request)
    taught = request.messages[0].text if request.messages[0].role == "system" else ""
    if "7341" in "".join(message.text for message in request.messages):
        return "The code is 7341."
    if taught:
        return formats.render([call("get_weather", city="Paris")], find_format(taught))
    return "One, two, three, four, five, six, seven, eight, nine, ten. The capital is Paris."


def call_natively(request: Request) -> Scripted:
    """The calls that a request with tools asks for."""
    choice = request.options.get("tool_choice", "auto")
    if choice == "none":
        return "I may not look it up, so I cannot say."
    if isinstance(choice, Mapping):
        return call(str(choice["name"]), city="Paris")
    names = [tool.name for tool in request.tools]
    if "book_table" in names:
        return call("book_table", BOOKED)
    if "both at once" in request.messages[-1].text:
        return [call(names[0], city="Paris"), call(names[0], city="Rome")]
    return call(names[0], city="Paris")


def find_format(taught: str) -> str:
    """The format that a prompt teaches."""
    if "<function=" in taught:
        return "qwen3_coder"
    return "hermes" if "<tool_call>" in taught else "fenced"


class Clinic(ScriptedModel):
    """A server at which an answer can be spoilt before it is written (`answering`) or after (`apply_fault`)."""

    def __init__(
        self,
        answering: Answering = answer_well,
        *,
        apply_fault: Callable[[Answer, dict[str, Any]], Answer] | None = None,
        pages: Mapping[str, Any] | None = None,
        usage: Usage = COUNTED,
        **options: Any,
    ) -> None:
        super().__init__([self._say_something], loop=True, usage=usage, **options)
        self._answering = answering
        self._spoil = apply_fault
        self._pages = {"/v1/models": MODELS} if pages is None else pages
        self.looked_up: list[str] = []

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        path = "/" + request.url.split("/", 3)[3]
        if path in self._pages:
            self.looked_up.append(path)
            return ScriptedResponse(Answer(200, {"content-type": "application/json"}, self._pages[path]))
        if path.endswith("/api/show"):
            return ScriptedResponse(Answer(404, {"content-type": "application/json"}, {"error": "not found"}))
        return await super().send(request, timeouts)

    def _say_something(self, request: Request) -> Scripted:
        return self._answering(request, self.bodies[-1])

    def _answer(self, scripted: Scripted, request: Request, spoken: str) -> Answer:
        answer = super()._answer(scripted, request, spoken)
        return answer if self._spoil is None else self._spoil(answer, self.bodies[-1])


def chat_endpoint(**settings: Any) -> Endpoint:
    return scripted_endpoint(quirks={"grammar_field": GRAMMAR_FIELD}, **settings)


def diagnose(server: ScriptedModel, *, quick: bool = False, endpoint: Endpoint | None = None) -> Report:
    """The report of a whole examination."""

    async def go() -> Report:
        subject = admit(endpoint or chat_endpoint(), quick=quick)
        prober = Prober(subject.endpoint, transport=server, environment={})
        try:
            steps = [step async for step in examine(subject, prober)]
        finally:
            await prober.close()
        report = steps[-1]
        assert isinstance(report, Report)
        return report

    return asyncio.run(go())


def verdicts(report: Report) -> dict[str, str]:
    """Everything that does not simply work, by probe."""
    return {finding.probe: finding.verdict for finding in report.findings if finding.verdict != "works"}


# ---- ways to be ill --------------------------------------------------------------------------------------------------


def without(request: Request, *names: str) -> Request:
    return structs.replace(
        request, options={name: value for name, value in request.options.items() if name not in names}
    )


def edit_frames(answer: Answer, change: Callable[[dict[str, Any]], None]) -> Answer:
    """The answer with every JSON object in it changed, streamed or whole."""
    if answer.pieces is None:
        body = answer.body
        change(body)
        return structs.replace(answer, body=body)
    pieces = []
    for piece in answer.pieces:
        text = piece.decode().removeprefix("data: ").strip()
        if not text.startswith("{"):
            pieces.append(piece)
            continue
        frame = json.loads(text)
        change(frame)
        pieces.append(f"data: {json.dumps(frame)}\n\n".encode())
    return structs.replace(answer, pieces=pieces)


def entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The pieces of calls in a body or a frame."""
    found = []
    for choice in body.get("choices", ()):
        message = choice.get("message") or choice.get("delta") or {}
        found += message.get("tool_calls") or []
    return found


def is_call(reply: Scripted) -> bool:
    return isinstance(reply, ToolCall) or (
        isinstance(reply, list) and any(isinstance(part, ToolCall) for part in reply)
    )
