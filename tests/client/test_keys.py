"""Where keys are found, and that neither messages nor the debug log show them."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from pathlib import Path

import pytest
from tests.client.servers import ASKED, HELLO, STREAM, always, answer, chunked, serve, silent

from dragoman import providers
from dragoman.client.exchange import choose_writer
from dragoman.client.keys import Secret, find_key, missing_key
from dragoman.client.transport import Timeouts
from dragoman.secrets.exchanges import RequestRedactor

KEY = "sk-loopback-0123456789"
ANTHROPIC = providers.resolve("anthropic:claude")


@pytest.mark.parametrize(
    ("given", "configured", "environment", "found"),
    [
        pytest.param(
            "argument", {"ANTHROPIC_API_KEY": "c"}, {"ANTHROPIC_API_KEY": "e"}, ("argument", ""), id="argument"
        ),
        pytest.param(
            None, {"ANTHROPIC_API_KEY": "c"}, {"ANTHROPIC_API_KEY": "e"}, ("c", "ANTHROPIC_API_KEY"), id="configured"
        ),
        pytest.param(None, None, {"ANTHROPIC_API_KEY": " e\n"}, ("e", "ANTHROPIC_API_KEY"), id="environment"),
        pytest.param(
            None,
            None,
            {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": ""},
            ("t", "ANTHROPIC_AUTH_TOKEN"),
            id="next_name",
        ),
        pytest.param("  ", None, {}, None, id="blank"),
        pytest.param(None, None, {"OPENAI_API_KEY": "other"}, None, id="another_provider"),
    ],
)
def test_where_a_key_is_found(
    given: str | None,
    configured: dict[str, str] | None,
    environment: dict[str, str],
    found: tuple[str, str] | None,
) -> None:
    key = find_key(ANTHROPIC, given, configured, environment)
    assert (key and (key.reveal(), key.name)) == found


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret(KEY, "NAME")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", repr({"key": secret})]
    assert not any("sk-" in text for text in shown)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    try:
        raise ValueError(secret)
    except ValueError:
        assert KEY not in traceback.format_exc()
    assert secret == Secret(KEY) and hash(secret) == hash(Secret(KEY)) and secret != KEY


def test_what_is_missing_is_named() -> None:
    assert missing_key(ANTHROPIC).explain() == (
        "there is no key for anthropic: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is not set\n"
        "hint: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or pass key="
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/x?key=abc&a=1", "https://h/x?key=***&a=1"),
        ("https://me:pass@h/x", "https://***@h/x"),
        ("https://h/sk-loopback-0123456789/x", "https://h/***/x"),
        ("https://h/x?monkey=1", "https://h/x?monkey=1"),
    ],
)
def test_addresses_are_shown_without_secrets(url: str, shown: str) -> None:
    assert RequestRedactor([KEY]).address(url) == shown


def test_a_scrubber_that_grows_forgets_nothing() -> None:
    first = RequestRedactor(["old-token"])
    second = first.grow(["new-token"])
    assert second.text("old-token new-token") == "*** ***"
    assert second.grow(["new-token"]) is second


# ---- the debug log ---------------------------------------------------------------------------------------------------


def blocks_of(data: bytes, *, whole: bool = False, handler: object = None) -> list[str]:
    blocks: list[str] = []

    async def scenario() -> None:
        async with serve(handler or always(data)) as server:  # type: ignore[arg-type]
            timeouts = Timeouts(first_byte=0.05)
            given = {"X-Other-Token": "hush-hush", "X-Plain": "seen"}
            async with server.client(debug=blocks.append, timeouts=timeouts, headers=given) as client:
                await client.ask(ASKED, whole=whole)

    asyncio.run(scenario())
    return blocks


def test_one_block_holds_the_request_and_the_answer() -> None:
    (block,) = blocks_of(answer(extra=["X-Request-Id: r-77", "Set-Cookie: hush"]), whole=True)
    assert block.startswith("=== request 1\nPOST http://127.0.0.1:")
    assert '{"model":"m","messages":[{"role":"user","content":"hi"}]}' in block
    assert "Authorization: ***\n" in block
    assert "X-Other-Token: ***\n" in block
    assert "X-Plain: seen\n" in block
    assert "HTTP/1.1 200\n" in block
    assert "x-request-id: r-77\n" in block
    assert HELLO.decode() in block
    assert KEY not in block
    assert "hush" not in block


def test_a_key_that_comes_back_in_two_pieces_is_not_shown() -> None:
    """Fault 19, at every place where the key may be split."""
    for cut in range(1, len(KEY)):
        pieces = [b"data: " + KEY[:cut].encode(), KEY[cut:].encode() + b"\n\n", STREAM]
        (block,) = blocks_of(chunked(pieces))
        assert KEY not in block
        assert "data: ***" in block


def test_a_fault_is_written_down() -> None:
    (block,) = blocks_of(b"", handler=silent)
    assert "no answer" in block
    assert "--- timed_out: " in block


@pytest.mark.parametrize(
    ("setting", "writes"),
    [("", False), ("0", False), ("off", False), ("1", True), ("true", True), ("stderr", True), ("debug.log", True)],
)
def test_the_variable(setting: str, writes: bool) -> None:
    assert (choose_writer(None, {"DRAGOMAN_DEBUG": setting}) is not None) is writes
    assert choose_writer(False, {"DRAGOMAN_DEBUG": setting}) is None


def test_blocks_go_to_stderr_or_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for setting in ("1", str(tmp_path / "debug.log")):
        write = choose_writer(None, {"DRAGOMAN_DEBUG": setting})
        assert write is not None
        write("a block")
        write("another")
    assert capsys.readouterr().err == "a block\nanother\n"
    assert (tmp_path / "debug.log").read_text(encoding="utf-8") == "a block\nanother\n"
