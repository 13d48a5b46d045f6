"""The registry of wires: a wire of one's own beside the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman import wire
from dragoman.errors import ConfigError
from dragoman.types import Message, Reply, Request
from dragoman.wire import registry
from dragoman.wire.openai_chat import OpenAIChat


class House(OpenAIChat):
    """Chat completions under another name."""

    name = "house"


@pytest.fixture
def registered() -> Iterator[None]:
    wire.register(House, wire.WireRow("House", r"/house$"))
    yield
    del registry.ROWS["house"], registry._registered["house"]


@pytest.mark.usefixtures("registered")
def test_a_registered_wire_is_found_by_its_name() -> None:
    codec = wire.get("house")
    assert "house" in wire.names()
    assert codec.encode_request(Request("m", [Message.user("hi")]))["messages"] == [{"role": "user", "content": "hi"}]
    assert codec.decode_reply(codec.encode_reply(Reply(Message.assistant("hello")))).text == "hello"


@pytest.mark.usefixtures("registered")
def test_a_wire_may_be_registered_again_but_not_replaced_by_another() -> None:
    wire.register(House, wire.WireRow("House", r"/house$"))

    class Other(OpenAIChat):
        name = "house"

    with pytest.raises(ConfigError):
        wire.register(Other, wire.WireRow("Other", r"/house$"))
    with pytest.raises(ConfigError):
        wire.register(OpenAIChat, wire.WireRow("OpenAIChat", r"/other$"))
