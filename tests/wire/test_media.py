"""Images, documents and recordings: on every wire as its official client has them, or named in the report.

The request types of the official clients judge every body. A part arrives with its data, or as the text that it is, or
it is left out with a loss that says so and with words for the model. There is no fourth way.
"""

from __future__ import annotations

import base64
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dragoman import providers
from dragoman.errors import CannotSend
from dragoman.providers.attachments import TAKERS, check_media
from dragoman.types import File, Image, Message, Request, Text, ToolCall, ToolResult
from dragoman.wire import get

WIRES = ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "cohere", "mistral", "ollama"]
JUDGES = {wire: import_module(f"tests.wire.judges.{wire}") for wire in WIRES}
MODELS = {"anthropic": "claude-sonnet-4-5", "bedrock": "anthropic.claude-3", "gemini": "gemini-3-pro"}
ENDPOINTS = {
    "openai_chat": "groq:x",
    "openai_responses": "openai:gpt-5",
    "anthropic": "anthropic:claude-sonnet-4-5",
    "gemini": "gemini:gemini-3-pro",
    "bedrock": "bedrock:anthropic.claude-3",
    "cohere": "cohere:command-a",
    "mistral": "mistral:small",
    "ollama": "ollama:qwen3",
}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(24)
OFFICE = b"PK\x03\x04 [Content_Types].xml word/document.xml"
PARTS: dict[str, Image | File] = {
    "image": Image(data=PNG),
    "image as a file": File("a.png", PNG),
    "image in an address": Image(url=f"data:image/png;base64,{base64.b64encode(PNG).decode()}"),
    "image at an address": Image(url="https://e.example/a.png"),
    "heic": Image(data=b"\0\0\0\x18ftypheic" + bytes(8), media_type="image/heic"),
    "pdf": File("a b.pdf", b"%PDF-1.7 x"),
    "pdf at an address": File("a.pdf", url="https://e.example/a.pdf", media_type="application/pdf"),
    "text": File("a.txt", b"grade A\xc3\xa9"),
    "csv": File("a.csv", b"a,b\n1,2\n"),
    "json": File("a.json", b'{"a": 1}'),
    "office": File("a.docx", OFFICE),
    "wav": File("a.wav", b"RIFF\x10\0\0\0WAVEfmt "),
    "mp3": File("a.mp3", b"ID3\x04xyz"),
    "ogg": File("a.ogg", b"OggS\0xyz"),
    "mp4": File("a.mp4", b"\0\0\0\x18ftypisom"),
    "zip": File("a.zip", b"PK\x03\x04xyz"),
    "unknown": File("a.dat", b"\0\x01\x02"),
    "nothing": File("a"),
}
COMMON = {"image", "image as a file", "image in an address"}
TEXTS = {"text", "csv", "json"}
CARRIED = {
    "openai_chat": {*COMMON, "image at an address", "heic", "pdf", "office", "wav", "mp3", "zip", "unknown"},
    "openai_responses": {
        *COMMON,
        "image at an address",
        "heic",
        "pdf",
        "pdf at an address",
        "office",
        "zip",
        "unknown",
    },
    "anthropic": {*COMMON, "image at an address", "pdf", "pdf at an address"},
    "gemini": set(PARTS) - {"nothing"},
    "bedrock": {*COMMON, "pdf", "office", "wav", "mp3", "ogg", "mp4"},
    "cohere": {*COMMON, "image at an address", "heic"},
    "mistral": set(PARTS) - {"nothing", "mp4"},
    "ollama": {*COMMON, "heic"},
}
"""What a message of the user carries; text files arrive on every wire."""


def ask(wire: str, *parts: Any, result: bool = False) -> Request:
    model = MODELS.get(wire, "m")
    if not result:
        return Request(model, [Message.user("Look:", *parts)])
    call = ToolCall("call_1", "look", {})
    answer = ToolResult("call_1", "look", [Text("Seen:"), *parts])
    return Request(model, [Message.user("Look."), Message("assistant", [call]), Message("tool", [answer])])


def arrival(part: Image | File, body: str) -> str:
    """How a part arrived in a body."""
    if part.url and not part.url.startswith("data:") and part.url in body:
        return "data"
    data = part.data or (part.url or "").partition("base64,")[2]
    if data and data in body:
        return "data"
    if data and isinstance(part, File) and json.dumps(base64.b64decode(data).decode("utf-8", "replace"))[1:8] in body:
        return "text"
    return "nothing"


@pytest.mark.parametrize("wire", WIRES)
def test_every_kind_is_carried_or_named_and_the_official_client_takes_the_request(wire: str) -> None:
    wrong = []
    for result in (False, True):
        for name, part in PARTS.items():
            prepared = get(wire).prepare(ask(wire, part, result=result))
            body = json.dumps(prepared.body)
            JUDGES[wire].validate_request(prepared.body)
            lost = [loss for loss in prepared.losses if loss.rule == "dropped" and "left out: " in loss.detail]
            # Bedrock names the address of what it cannot fetch.
            way = "nothing" if lost and part.data is None else arrival(part, body)
            expected = way if name in TEXTS else "data" if name in CARRIED[wire] else "nothing"
            if result and wire == "bedrock" and name in ("wav", "mp3", "ogg"):
                expected = "nothing"  # Converse takes recordings of a user only.
            told = bool(lost) and ("not available]" in body or "[file: " in body or "[image: " in body)
            if way != expected or (way == "nothing") != told or (name in TEXTS and way == "nothing"):
                wrong.append((name, "result" if result else "user", way, expected, [str(loss) for loss in lost]))
    assert not wrong, "\n".join(map(str, wrong))


def test_what_is_refused_before_sending_is_what_the_wire_cannot_carry() -> None:
    for wire, model in ENDPOINTS.items():
        endpoint = providers.resolve(model)
        assert endpoint.wire == wire
        for name, part in PARTS.items():
            try:
                check_media([Message.user(part)], endpoint)
                taken = True
            except CannotSend as error:
                taken = False
                assert "\n" not in str(error) and error.next_step
            assert taken == (name in CARRIED[wire] | TEXTS), (wire, name)


def test_the_advice_names_the_wires_that_take_a_kind() -> None:
    kinds = {"audio": "ogg", "video": "mp4", "document": "pdf"}
    for kind, name in kinds.items():
        first, _, more = TAKERS[kind].partition(";")
        for wire in WIRES:
            named = wire in first.replace(",", " ").split()
            assert named == (name in CARRIED[wire]), (kind, wire)
            if wire in more:
                assert {"wav", "mp3"} <= CARRIED[wire]


@pytest.mark.parametrize(
    ("part", "words", "hint"),
    [
        (Image("photo.png"), "'photo.png' is no address", "Image.from_path('photo.png')"),
        (Image(data="photo.png"), "no base64", "from_path"),
        (Image(), "neither data nor an address", "from_path"),
        (File("a.ogg", b"OggS"), "cannot take the recording a.ogg", "gemini"),
        (Image("https://e.example/a.png"), "by address", "dragoman.attach"),
    ],
)
def test_what_no_wire_could_use_is_told_with_the_next_step(part: Any, words: str, hint: str) -> None:
    with pytest.raises(CannotSend, match=words) as caught:
        check_media([Message.user(part)], providers.resolve("ollama:qwen3"))
    assert hint in caught.value.next_step


def test_a_model_for_text_alone_gets_text_files_and_nothing_else() -> None:
    endpoint = providers.resolve("local:smollm2")
    check_media([Message.user(PARTS["text"])], endpoint)
    with pytest.raises(CannotSend, match="only text"):
        check_media([Message.user(PARTS["image"])], endpoint)


def test_media_between_wires_arrive_or_are_in_the_report() -> None:
    """A client of one wire, an endpoint of another: what the first one carries reaches the second, or is named."""
    wrong = []
    for source in WIRES:
        for name in CARRIED[source] | TEXTS:
            part = PARTS[name]
            for result in (False, True):
                sent = get(source).prepare(ask(source, part, result=result)).body
                if arrival(part, json.dumps(sent)) == "nothing":
                    continue
                request = get(source).decode_request(sent)
                for target in WIRES:
                    request = Request(MODELS.get(target, "m"), request.messages, request.tools)
                    prepared = get(target).prepare(request)
                    JUDGES[target].validate_request(prepared.body)
                    way = arrival(part, json.dumps(prepared.body))
                    lost = any(loss.rule == "dropped" for loss in prepared.losses)
                    if way == "nothing" and not lost:
                        wrong.append((source, target, name, result, json.dumps(prepared.body)[:300]))
                    if way == "nothing" and source == target:
                        wrong.append((source, "itself", name, result, json.dumps(prepared.body)[:300]))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("part", [Image(extra={"zz": {"file_id": "f"}}), File("", extra={"zz": {"file_id": "f"}})])
def test_the_file_id_of_another_wire_leaves_nothing_empty_behind(wire: str, part: Any) -> None:
    prepared = get(wire).prepare(Request("claude", [Message.user("look", part)]))
    body = json.dumps(prepared.body)
    assert len(prepared.losses) >= 2
    assert '""' not in body and "{}" not in body


def test_the_page_says_what_each_wire_carries() -> None:
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "media.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
    table = {cells[0].strip("`"): cells[1:] for cells in rows if cells[0].strip("`") in WIRES}
    assert sorted(table) == sorted(WIRES)
    for wire, (images, pdf, sounds, videos, others, addresses) in table.items():
        carried = CARRIED[wire]
        words = {name: "yes" if name in carried else "no" for name in ("pdf", "ogg", "mp4", "office", "heic")}
        assert (pdf, videos) == (words["pdf"], words["mp4"]), wire
        assert sounds == ("wav, mp3" if "wav" in carried and "ogg" not in carried else words["ogg"]), wire
        assert (images == "yes") == ("heic" in carried) and carried >= COMMON, wire
        assert (others != "no") == ("office" in carried), wire
        assert ("images" in addresses) == ("image at an address" in carried), wire
        assert ("files" in addresses) == ("pdf at an address" in carried), wire
