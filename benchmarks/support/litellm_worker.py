"""Measures LiteLLM's translation of the same conversations. It runs in an environment of its own, beside ours.

One JSON object per line comes in, one goes out. Three things are measured: the classes that translate, alone; the same
with the parameter handling and the stream wrapper that stand around them; and `litellm.completion` with a client that
answers at once. The process opens no connection. Logging is switched off where it can be, in LiteLLM's favour.
"""

from __future__ import annotations

import base64
import copy
import gc
import json
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from time import process_time, thread_time
from typing import Any

# Before the import: it would fetch the list of prices from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_TELEMETRY"] = "False"

# A wire -> the module and the class that translate for it, the name of the provider, and a model that it knows.
CONFIGS = {
    "openai_responses": (
        "litellm.completion_extras.litellm_responses_transformation.transformation",
        "LiteLLMResponsesTransformationHandler",
        "openai",
        "gpt-4o",
    ),
    "anthropic": ("litellm.llms.anthropic.chat.transformation", "AnthropicConfig", "anthropic", "claude-sonnet-4-5"),
    "gemini": ("litellm.llms.gemini.chat.transformation", "GoogleAIStudioGeminiConfig", "gemini", "gemini-2.5-flash"),
    "ollama": ("litellm.llms.ollama.chat.transformation", "OllamaChatConfig", "ollama_chat", "llama3.1"),
    "bedrock": (
        "litellm.llms.bedrock.chat.converse_transformation",
        "AmazonConverseConfig",
        "bedrock",
        "anthropic.claude-3-5-sonnet-20240620-v1:0",
    ),
    "mistral": ("litellm.llms.mistral.chat.transformation", "MistralConfig", "mistral", "mistral-large-latest"),
    "cohere": ("litellm.llms.cohere.chat.v2_transformation", "CohereV2ChatConfig", "cohere_chat", "command-a-03-2025"),
}
COPIES = 5
Job = dict[str, Any]


class Translator:
    """LiteLLM's translation to and from one wire."""

    def __init__(self, wire: str) -> None:
        module, name, self.provider, self.model = CONFIGS[wire]
        self.wire = wire
        self.config: Any = getattr(import_module(module), name)()
        self.litellm: Any = import_module("litellm")
        self.optional_params: Any = import_module("litellm.utils").get_optional_params
        self.gemini: Any = import_module("litellm.llms.vertex_ai.gemini.transformation").transform_request_body

    def logging(self) -> Any:
        logging = import_module("litellm.litellm_core_utils.litellm_logging")
        made = logging.Logging(
            model=self.model,
            messages=[],
            stream=True,
            call_type="completion",
            start_time=datetime.now(),
            litellm_call_id="1",
            function_id="1",
        )
        made.update_environment_variables(
            model=self.model, user="", optional_params={}, litellm_params={}, custom_llm_provider=self.provider
        )
        return made

    # ---- requests -------------------------------------------------------------------------------------------------

    def map(self, body: Job) -> Job:
        """The work of the class alone: parameters and tools."""
        given = {key: value for key, value in body.items() if key not in ("model", "messages")}
        if self.wire == "openai_responses":
            return given
        mapped: Job = self.config.map_openai_params(given, {}, self.model, False)
        return mapped

    def map_as_called(self, body: Job) -> Job:
        """What `litellm.completion` does with parameters and tools before it translates the messages."""
        given = {key: value for key, value in body.items() if key not in ("model", "messages")}
        mapped: Job = self.optional_params(
            self.model, custom_llm_provider=self.provider, messages=body["messages"], drop_params=True, **given
        )
        return mapped

    def request(self, body: Job, mapped: Job) -> Job:
        made: Job
        messages = body["messages"]
        if self.wire == "gemini":
            made = self.gemini(messages, self.model, mapped, "gemini", {}, None)
        elif self.wire == "openai_responses":
            made = self.config.transform_request(self.model, messages, mapped, {}, {}, _QUIET)
        else:
            made = self.config.transform_request(self.model, messages, mapped, {}, {})
        return made

    # ---- replies --------------------------------------------------------------------------------------------------

    def reply(self, response: Any) -> Any:
        if self.wire == "openai_responses":
            raise RuntimeError("it reads only objects of the OpenAI library, no body")
        return self.config.transform_response(
            model=self.model,
            raw_response=response,
            model_response=self.litellm.ModelResponse(),
            logging_obj=_QUIET,
            request_data={},
            messages=[],
            optional_params={},
            litellm_params={},
            encoding=None,
        )

    def complete(self, body: Job, client: Any) -> Any:
        """The whole of `litellm.completion`: the request to the wire, its answer back, and all that stands around."""
        given = {key: value for key, value in body.items() if key != "model"}
        if self.wire == "bedrock":
            given |= {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region_name": "us-east-1"}
        # The longer form of a name says which of the APIs of a provider is meant.
        api = {"bedrock": "converse/", "openai_responses": "responses/"}.get(self.wire, "")
        model = f"{self.provider}/{api}{self.model}"
        return self.litellm.completion(model, client=client, api_key="x", drop_params=True, **given)

    # ---- streams --------------------------------------------------------------------------------------------------

    def iterator(self, pieces: Iterable[Any]) -> Iterator[Any]:
        """From what the connection gives (lines, or frames for Bedrock) to LiteLLM's chunks."""
        source = iter(pieces)
        made: Any
        if self.wire == "bedrock":
            made = self.decoder().iter_bytes(source)
        elif self.wire == "anthropic":
            module = import_module("litellm.llms.anthropic.chat.handler")
            made = iter(module.ModelResponseIterator(source, sync_stream=True))
        elif self.wire == "gemini":
            module = import_module("litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini")
            made = iter(module.ModelResponseIterator(source, sync_stream=True, logging_obj=self.logging()))
        else:
            made = iter(self.config.get_model_response_iterator(source, sync_stream=True))
        return made  # type: ignore[no-any-return]

    def decoder(self) -> Any:
        return import_module("litellm.llms.bedrock.chat.invoke_handler").AWSEventStreamDecoder(self.model)

    def parser(self) -> Callable[[Any], Any]:
        """From one decoded JSON object to one of LiteLLM's chunks: no framing and no JSON."""
        parser: Callable[[Any], Any]
        parser = self.decoder().converse_chunk_parser if self.wire == "bedrock" else self.iterator([]).chunk_parser  # type: ignore[attr-defined]
        return parser

    def wrapper(self, pieces: Iterable[Any]) -> Iterator[Any]:
        """What a user iterates over."""
        made: Iterator[Any] = self.litellm.CustomStreamWrapper(
            self.iterator(pieces), self.model, self.logging(), self.provider
        )
        return made


class _Quiet:
    """Stands in for the logging object: it takes everything and does nothing."""

    def __init__(self) -> None:
        self.model_call_details: Job = {}
        self.optional_params: Job = {}

    def post_call(self, *_: object, **__: object) -> None:
        pass


_QUIET = _Quiet()


def best(
    rounds: int,
    prepare: Callable[[], list[Any]],
    run: Callable[[Any], object],
    count: int = 1,
    clock: Callable[[], float] = process_time,
) -> float:
    """Microseconds of the best round, for one of `count` things; what `prepare` does is not measured."""
    least = float("inf")
    for _ in range(rounds):
        inputs = prepare()
        start = clock()
        for each in inputs:
            run(each)
        least = min(least, (clock() - start) / len(inputs))
        gc.collect()
    return least / count * 1e6


def drain(chunks: Iterator[Any]) -> None:
    for _ in chunks:
        pass


def measure_request(job: Job) -> Job:
    translator = Translator(job["wire"])
    body, rounds = job["body"], job["rounds"]

    # It changes what it is given, so that each run needs a copy of its own.
    def copies() -> list[Any]:
        return [copy.deepcopy(body) for _ in range(COPIES)]

    warm = copy.deepcopy(body)
    made = translator.request(warm, translator.map(warm))
    warm = copy.deepcopy(body)
    translator.request(warm, translator.map_as_called(warm))

    def write(translated: Job) -> str:
        # As its HTTP handler writes what is sent.
        return json.dumps(translated, default=str)

    return {
        "classes": best(rounds, copies, lambda own: write(translator.request(own, translator.map(own)))),
        "user": best(rounds, copies, lambda own: write(translator.request(own, translator.map_as_called(own)))),
        "bytes": len(write(made)),
    }


def measure_reply(job: Job) -> Job:
    translator = Translator(job["wire"])
    response = import_module("httpx").Response
    content = base64.b64decode(job["body"])

    def responses() -> list[Any]:
        return [response(200, content=content) for _ in range(COPIES)]

    calls = translator.reply(responses()[0]).choices[0].message.tool_calls
    return {"classes": best(job["rounds"], responses, translator.reply), "calls": len(calls or ())}


def measure_completion(job: Job) -> Job:
    translator = Translator(job["wire"])
    httpx: Any = import_module("httpx")
    handler: Any = import_module("litellm.llms.custom_httpx.http_handler").HTTPHandler
    content, sent = base64.b64decode(job["reply"]), httpx.Request("POST", "http://localhost")

    # For some providers it takes a client of its own, whatever it is given: so none of them sends anything.
    handler.post = lambda *_, **__: httpx.Response(200, content=content, request=sent)
    client = handler()

    def copies() -> list[Any]:
        return [copy.deepcopy(job["body"]) for _ in range(COPIES)]

    calls = translator.complete(copies()[0], client).choices[0].message.tool_calls
    # What it does in other threads is not counted.
    cost = best(job["rounds"], copies, lambda own: translator.complete(own, client), clock=thread_time)
    return {"user": cost, "calls": len(calls or ())}


def measure_stream(job: Job) -> Job:
    translator = Translator(job["wire"])
    pieces: list[Any] = [base64.b64decode(piece) for piece in job["pieces"]]
    count = len(pieces)
    objects = [json.loads(body) for body in job["bodies"]]
    lines = lines_of(job["wire"], pieces, job["bodies"])
    rounds = job["rounds"]

    def parse_all(own: list[Any]) -> None:
        parse = translator.parser()
        for each in own:
            parse(each)

    answer: Job = {
        "parser": best(rounds, lambda: [copy.deepcopy(objects)], parse_all, count),
        "iterator": best(rounds, lambda: [lines], lambda own: drain(translator.iterator(own)), count),
    }
    if job["wrapped"]:
        got: list[Any] = []
        # It costs so much more that its figure needs no second round.
        answer["user"] = best(1, lambda: [lines], lambda own: got.extend(translator.wrapper(own)), count)
        answer |= {"text": sum(map(length_of_text, got)), "arguments": sum(map(length_of_arguments, got))}
    return answer


def lines_of(wire: str, pieces: list[bytes], bodies: list[str]) -> list[Any]:
    """What the HTTP client would hand over. Cutting bytes into lines is not counted."""
    if wire == "bedrock":
        return pieces
    # It cannot read Cohere's server-sent events; it can read the same as lines of JSON.
    return bodies if wire == "cohere" else b"".join(pieces).decode().splitlines()


def length_of_text(chunk: Any) -> int:
    return len(chunk.choices[0].delta.content or "") if chunk.choices else 0


def length_of_arguments(chunk: Any) -> int:
    calls = (chunk.choices[0].delta.tool_calls or ()) if chunk.choices else ()
    return sum(len(call.function.arguments or "") for call in calls)


def refuse(*_: object, **__: object) -> None:
    raise OSError("the benchmark opens no connection")


JOBS: dict[str, Callable[[Job], Job]] = {
    "request": measure_request,
    "reply": measure_reply,
    "completion": measure_completion,
    "stream": measure_stream,
}


def main() -> None:
    # Whatever the library prints must not come between our answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    socket.getaddrinfo = socket.socket.connect = refuse  # type: ignore[assignment, method-assign]
    litellm: Any = import_module("litellm")
    litellm.disable_streaming_logging = True
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    gc.disable()
    answer: Job = {"litellm": version("litellm"), "openai": version("openai")}
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = JOBS[job["do"]](job)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
