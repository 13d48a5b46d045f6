"""`dragoman convert`: a request goes in, another provider's comes out, and the report says what it cost."""

from __future__ import annotations

import json

import pytest
from tests.wire.rules import violations

REQUEST = {
    "model": "claude-opus-4-8",
    "max_tokens": 100,
    "system": "Be brief.",
    "tools": [
        {
            "name": "web.search",
            "description": "Search",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False},
        }
    ],
    "messages": [
        {"role": "user", "content": "Look it up."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
                {"type": "tool_use", "id": "toolu_1", "name": "web.search", "input": {"q": "dragoman"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True}],
        },
    ],
}


@pytest.mark.parametrize(
    "target", ["openai_chat", "openai_responses", "gemini", "ollama", "bedrock", "mistral", "cohere"]
)
def test_a_request_of_anthropic_becomes_any_other(dragoman, write, target: str) -> None:
    done = dragoman("convert", "--from", "anthropic", "--to", target, write("request.json", json.dumps(REQUEST)))
    assert done.code == 0
    assert violations(target, json.loads(done.out)) == []
    assert "dropped      message 2: reasoning of another wire was left out" in done.err.splitlines()


def test_programs_get_body_path_report_and_names(dragoman, write) -> None:
    data = dragoman(
        "convert",
        "--from",
        "anthropic",
        "--to",
        "gemini",
        "--json",
        "-m",
        "gemini-3-pro",
        write("r.json", json.dumps(REQUEST)),
    ).data
    assert data["path"] == "/models/gemini-3-pro:generateContent"
    assert data["body"]["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert {"rule": "dropped", "where": "tool web.search", "detail": "dropped additionalProperties at $"} in data[
        "report"
    ]
    assert data["names"] == {}


def test_a_conversation_may_come_alone_from_a_pipe(dragoman) -> None:
    done = dragoman("convert", "--from", "anthropic", "--to", "openai", stdin=json.dumps(REQUEST["messages"]).encode())
    body = json.loads(done.out)
    assert "model" not in body
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]


def test_check_fails_when_something_is_lost(dragoman, write) -> None:
    path = write("request.json", json.dumps(REQUEST))
    assert dragoman("convert", "--from", "anthropic", "--to", "anthropic", "--check", path).code == 1  # the dotted name
    plain = write("plain.json", json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}))
    assert dragoman("convert", "--from", "openai", "--to", "mistral", "--check", plain).code == 0


def test_a_provider_brings_its_quirks_and_its_model(dragoman, write) -> None:
    done = dragoman(
        "convert", "--from", "anthropic", "--to", "deepseek:deepseek-chat", write("r.json", json.dumps(REQUEST))
    )
    assert json.loads(done.out)["model"] == "deepseek-chat"


@pytest.mark.parametrize(
    ("arguments", "text", "error", "hint"),
    [
        (["--from", "gemini", "--to", "openai"], json.dumps(REQUEST), "no conversation", "anthropic"),
        (
            ["--from", "gemni", "--to", "openai"],
            "{}",
            "unknown provider 'gemni'; did you mean 'gemini'?",
            "dragoman providers",
        ),
        (["--from", "openai", "--to", "gemini"], "{not json", "is not JSON", "body of a request"),
        (["--from", "openai", "--to", "gemini"], "[]", "no conversation", "give the body"),
        (["--from", "openai", "--to", "sagemaker"], "{}", "does not support the protocol of", ""),
    ],
)
def test_mistakes_are_told_in_a_line_with_a_hint(dragoman, write, arguments, text, error, hint) -> None:
    done = dragoman("convert", *arguments, write("request.json", text))
    assert done.code == 2
    assert done.out == ""
    first, second = done.err.splitlines()[:2]
    assert error in first
    assert hint in second
