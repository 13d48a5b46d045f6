"""Which endpoint answers: patterns, slots, aliases, balance, cool-down and fallbacks."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from dragoman.client import DetectedServer, ListedModel
from dragoman.errors import ConfigError, UnknownModel
from dragoman.server.process import open_gateway
from dragoman.server.router import Router, find_endpoint, find_servers
from dragoman.server.settings import (
    EndpointSettings,
    GatewaySettings,
    RouteSettings,
    ServerSettings,
    parse_settings,
    read_settings,
)
from dragoman.testing import Upstream
from dragoman.types import Failure, Image, Message, Reply, Request, Text

FILE = """
[endpoints.big]
url = "http://big.invalid/v1"
wire = "openai_chat"
model = "big-70b"

[endpoints.small]
url = "http://small.invalid/v1"
wire = "openai_chat"
model = "small-8b"

[endpoints.spare]
url = "http://spare.invalid"
wire = "anthropic"
model = "spare"

[endpoints.wide]
url = "http://wide.invalid"
wire = "ollama"
context_window = 100000

[[routes]]
match = "claude-*haiku*"
to = "small"

[[routes]]
match = ["claude-*", "gpt-*"]
to = "big"
fallback = "spare"
thinking = "spare"
images = "wide"
long_context = "wide"
long_context_tokens = 1000
background = "small"

[[routes]]
match = "shared"
to = ["big", "small"]

[aliases]
fast = "claude-3-haiku"
"""


def router() -> Router:
    now = [0.0]
    made = Router(parse_settings(FILE), clock=lambda: now[0])
    made.now = now  # type: ignore[attr-defined]
    return made


def ask(model: str, *parts: object, **options: object) -> Request:
    return Request(model, [Message("user", list(parts) or [Text("Go.")])], [], dict(options))  # type: ignore[arg-type]


def names(made: Router, request: Request, size: int = 100) -> list[str]:
    return [target.name for target in made.choose(request, size).targets]


def test_the_first_pattern_that_matches_decides() -> None:
    made = router()
    cases = {
        "claude-3-haiku": ["small"],
        "Claude-4-Haiku-x": ["small"],
        "fast": ["small"],
        "claude-opus-4": ["big", "spare"],
        "gpt-5": ["big", "spare"],
        "gpt-5-mini": ["small", "spare"],
    }
    assert {model: names(made, ask(model)) for model in cases} == cases
    with pytest.raises(UnknownModel, match="llama"):
        made.choose(ask("llama"))


def test_a_slot_is_for_requests_of_one_kind() -> None:
    made = router()
    picture = Image(data=base64.b64encode(b"x").decode(), media_type="image/png")
    assert made.choose(ask("gpt-5", picture), 10).slot == "images"
    assert made.choose(ask("gpt-5", Text("word " * 2000)), 10_000).slot == "long_context"
    assert made.choose(ask("gpt-5"), 10_000).slot == "", "what is large is not long"
    for small in ("gpt-5-mini", "gpt-5-nano-2025", "claude-haiku-x", "gpt-small", "claude-lite"):
        assert made.choose(ask(small)).slot in ("background", ""), small
        assert names(made, ask(small))[0] == "small", small
    for large in ("gpt-gemini-2.5-pro", "claude-minimax", "gpt-smaller", "gpt-nanonets", "gpt-satellite"):
        assert names(made, ask(large))[0] == "big", large
    assert made.choose(ask("gpt-5", reasoning={"effort": "high"})).slot == "thinking"
    assert made.choose(ask("gpt-5", reasoning={"enabled": False})).slot == ""
    assert names(made, ask("gpt-5", reasoning={"effort": "high"})) == ["spare"]


def test_the_least_busy_endpoint_is_first_and_a_failed_one_rests() -> None:
    made = router()
    big, small = made.targets["big"], made.targets["small"]
    big.started()
    assert names(made, ask("shared")) == ["small", "big"]
    small.started()
    small.started()
    assert names(made, ask("shared")) == ["big", "small"]
    big.ended(Failure("overloaded"))
    assert names(made, ask("shared")) == ["small", "big"]
    assert made.resting() == ["big"]
    made.now[0] = 31.0  # type: ignore[attr-defined]
    assert names(made, ask("shared")) == ["big", "small"]


def test_a_rejected_request_says_nothing_about_the_health_of_an_endpoint() -> None:
    made = router()
    made.targets["big"].started()
    made.targets["big"].ended(Failure("bad_request"))
    assert made.resting() == []


def test_an_endpoint_without_a_model_takes_the_name_of_the_client() -> None:
    made = router()
    client = made.targets["wide"].client_for("qwen3:8b")
    assert (client.endpoint.model, client.endpoint.wire) == ("qwen3:8b", "ollama")
    assert client.endpoint.quirks.context_window == 100_000
    assert client is made.targets["wide"].client_for("qwen3:8b")


def test_ollama_gets_a_context_window_that_the_prompt_needs_and_the_model_has() -> None:
    models = (ListedModel("qwen3:8b", context=40_960), ListedModel("tiny", context=2048), ListedModel("unknown"))
    server = DetectedServer("ollama", {"ollama": "http://box.invalid:11434"}, models)
    for fixed in (None, 8000):
        row = EndpointSettings(url="http://box.invalid:11434", context_window=fixed)
        made = Router(
            GatewaySettings(ServerSettings(), {"box": row}, [RouteSettings(to="box")]), servers={"box": server}
        )

        def window(model: str, size: int, made: Router = made) -> int:
            [backend] = made.choose(ask(model), size).backends()
            sent = backend.client.codec.prepare(Request(model, [Message.user("Go.")])).body
            assert sent["options"]["num_ctx"] == backend.client.endpoint.quirks.context_window
            return backend.client.endpoint.quirks.context_window

        sizes = (100, 48_000, 52_000, 100, 90_000, 110_000, 9_000_000, 100)
        expected = [16_384, 16_384, 32_768, 32_768, 32_768, 40_960, 40_960, 40_960]
        assert [window("qwen3:8b", size) for size in sizes] == (expected if fixed is None else [fixed] * 8)
        assert window("tiny", 50_000) == (2048 if fixed is None else fixed)
        assert window("unknown", 500_000) == (16_384 if fixed is None else fixed)


def test_the_model_of_an_endpoint_with_a_url_may_have_its_provider_before_it() -> None:
    server = DetectedServer("ollama", {"ollama": "http://box.invalid:11434"})
    for written, sent in {"ollama:qwen3:8b": "qwen3:8b", "qwen3:8b": "qwen3:8b", "mistral:7b": "mistral:7b"}.items():
        row = EndpointSettings(url=server.base_url, model=written)
        assert find_endpoint(row, "asked", server=server).model == sent


WRONG = {
    "[[routes]]\nto = 'nowhere'": "nowhere",
    "[[routes]]\nmatch = '*'": "leads nowhere",
    "": "no route",
    "[[routes]]\nto = 'a:b'\nfalback = 'x:y'": "falback",
    "[gateway]\nport = 70000\n[[routes]]\nto = 'a:b'": "70000",
    "[[routes]]\nto = 'a:b'\nprofile = 'none'": "profile",
    "[[routes": "TOML",
}


def test_a_wrong_setting_is_named_with_a_next_step() -> None:
    for text, word in WRONG.items():
        with pytest.raises(ConfigError) as caught:
            parse_settings(text, "gateway.toml")
        told = f"{caught.value} {caught.value.next_step}"
        assert word in told and "gateway.toml" in told, f"{text!r}: {told}"
        assert caught.value.next_step, text


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml"):
        read_settings(tmp_path / "gone.toml")


def test_a_server_that_did_not_answer_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: EndpointSettings(url=f"http://{name}.invalid") for name in ("late", "there")}
    settings = GatewaySettings(ServerSettings(cool_down=30), rows, [RouteSettings(to=list(rows))])
    answers = {"there"}

    async def detect(url: str, **_: object) -> DetectedServer:
        name = url.removeprefix("http://").removesuffix(".invalid")
        if name not in answers:
            raise ConfigError(f"no server answers at {url}")
        return DetectedServer("custom", {"anthropic": url})

    async def check() -> None:
        now = 100.0
        made = Router(settings, servers=await find_servers(settings), clock=lambda: now)
        assert names(made, ask("m")) == ["there", "late"], "the missing one is the last resort"
        answers.add("late")
        made.look_again()
        assert [target.name for target in made.missing()] == ["late"], "not before the cool-down is over"
        now = 200.0
        made.look_again()
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()))
        assert made.missing() == [] and made.targets["late"].endpoint.wire == "anthropic"
        answers.clear()
        with pytest.raises(ConfigError, match="no server answers"):
            await find_servers(settings)

    monkeypatch.setattr("dragoman.server.router.adetect", detect)
    asyncio.run(check())


def test_the_hint_for_an_unknown_setting_is_about_that_setting() -> None:
    """A second mistake, in a table that is read later, has a hint of its own."""
    text = '[endpoints.a]\nurl = "http://127.0.0.1:9/v1"\nky_env = "X"\n[routes.b]\nendpoint = "a"\n'
    with pytest.raises(ConfigError, match="unknown field `ky_env`") as caught:
        parse_settings(text)
    assert "key_env" in caught.value.next_step, caught.value.next_step


# ---- proxies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["environment", "setting", "none"])
def test_a_gateway_uses_the_proxy_of_its_environment_or_of_its_settings(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = parse_settings(FILE)
    with Upstream(["Through the proxy."]) as proxy:
        place = proxy.url.removesuffix("/v1")
        monkeypatch.setenv("HTTP_PROXY", place if how != "setting" else "http://another.invalid")

        async def ask() -> Reply:
            chosen = {"environment": "env", "setting": place, "none": "none"}[how]
            gateway, transport = await open_gateway(settings, proxy=chosen)
            client = gateway.router.targets["big"].client_for("big-70b")
            try:
                return await client.ask(Request("", [Message.user("hi")]))
            finally:
                await transport.close()

        reply = asyncio.run(ask())
        targets = [received.target for received in proxy.received]
    if how == "none":
        assert (reply.failure is not None, targets) == (True, [])
    else:
        assert (reply.text, targets) == ("Through the proxy.", ["http://big.invalid/v1/chat/completions"])
