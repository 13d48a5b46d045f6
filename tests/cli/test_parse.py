"""`dragoman parse`: what people and programs are shown, and how mistakes are told."""

from __future__ import annotations

import pytest

HERMES = """Let me look.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris", "days": "3",}}
</tool_call>
"""
TOOLS = """[{"name": "get_weather", "parameters": {"type": "object",
"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}]"""


def lines_under(heading: str, out: str) -> list[str]:
    """The lines of one section of the report, without their indentation."""
    section = f"\n{out}".split(f"\n{heading}\n", 1)[1].split("\n\n", 1)[0]
    return [line.strip() for line in section.strip("\n").split("\n")]


def test_people_see_name_arguments_place_repairs_and_changes(dragoman, write) -> None:
    done = dragoman("parse", "--tools", write("tools.json", TOOLS), write("reply.txt", HERMES))
    assert (done.code, done.err) == (0, "")
    head, arguments, *notes = lines_under("Calls", done.out)
    end = HERMES.index("</tool_call>") + len("</tool_call>")
    assert head == f"get_weather  hermes, 2:1, offsets 13..{end}"
    assert arguments == '{"city": "Paris", "days": 3}'
    assert notes[0].startswith("repairs: ") and "comma" in notes[0]
    assert notes[1].startswith('change: $.days "3" -> 3 (')
    assert lines_under("Text", done.out) == ["Let me look."]


def test_programs_get_one_object_with_everything(dragoman, write) -> None:
    data = dragoman("parse", "--json", "--tools", write("tools.json", TOOLS), write("reply.txt", HERMES)).data
    (call,) = data["calls"]
    assert call["name"] == "get_weather"
    assert call["arguments"] == {"city": "Paris", "days": 3}
    assert call["known_tool"] is True
    assert call["changes"][0]["path"] == "$.days"
    start, end = call["provenance"]["span"]
    assert HERMES[start:end] == call["raw"]
    assert (call["provenance"]["line"], call["provenance"]["column"]) == (2, 1)
    assert data["text"].startswith("Let me look.")
    assert (data["thinking"], data["refused"], data["broken"]) == ("", [], [])
    assert (data["format"], data["loose"]) == ("auto", False)
    assert "explanations" not in data


@pytest.mark.parametrize("arguments", [["parse"], ["parse", "-"], ["parse", "-f", "hermes"]])
def test_text_comes_from_standard_input(dragoman, arguments: list[str]) -> None:
    done = dragoman(*arguments, stdin=HERMES.encode())
    assert lines_under("Calls", done.out)[0].startswith("get_weather  hermes, 2:1")


def test_no_call_is_no_error(dragoman) -> None:
    done = dragoman("parse", stdin=b"Hello there.")
    assert (done.code, done.err) == (0, "")
    assert lines_under("Calls", done.out) == ["none"]
    assert lines_under("Text", done.out) == ["Hello there."]


def test_thinking_and_the_calls_in_it_are_told_apart(dragoman) -> None:
    text = '<think>maybe <tool_call>{"name": "shell", "arguments": {}}</tool_call> or not</think>No.'
    done = dragoman("parse", stdin=text.encode())
    assert lines_under("Calls", done.out) == ["none"]
    head, arguments, why = lines_under("Refused", done.out)
    assert head.startswith("shell  hermes, 1:14, ") and head.endswith("in thinking")
    assert arguments == "{}"
    assert why.startswith("refused: ")
    assert "maybe" in lines_under("Thinking", done.out)[0]
    assert lines_under("Text", done.out) == ["No."]


def test_a_call_that_was_cut_off_is_broken(dragoman) -> None:
    text = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a'
    done = dragoman("parse", stdin=text.encode())
    assert lines_under("Calls", done.out) == ["none"]
    head, why, *raw = lines_under("Broken", done.out)
    assert f"offsets 0..{len(text)}" in head
    assert why.startswith("why: ")
    assert raw == text.split("\n")
    (broken,) = dragoman("parse", "--json", stdin=text.encode()).data["broken"]
    assert (broken["raw"], broken["span"], broken["line"]) == (text, [0, len(text)], 1)


def test_explain_says_why_a_name_that_was_not_offered_is_text(dragoman, write) -> None:
    text = '{"name": "launch", "arguments": {}}'
    options = ["parse", "--explain", "--tools", write("tools.json", TOOLS)]
    head, why = lines_under("Explanation", dragoman(*options, stdin=text.encode()).out)
    assert head.startswith("text as ") and text in head and "1:1" in head
    assert "'launch'" in why
    (found,) = dragoman(*options, "--json", stdin=text.encode()).data["explanations"]
    assert (found["verdict"], found["span"][0], found["line"], found["column"]) == ("text", 0, 1, 1)
    assert found["why"] == why


def test_explain_names_the_call_that_only_loose_reading_takes(dragoman, write) -> None:
    text = b'I would call {"name": "get_weather", "arguments": {"city": "Rome"}} now.'
    options = ["parse", "--json", "--explain", "--tools", write("tools.json", TOOLS)]
    verdicts = {item["verdict"]: item["why"] for item in dragoman(*options, stdin=text).data["explanations"]}
    assert "loose" in verdicts["near miss"]


def test_explain_of_plain_prose_says_that_there_was_nothing(dragoman) -> None:
    assert lines_under("Explanation", dragoman("parse", "--explain", stdin=b"Hello.").out) == [
        "nothing in this text looks like the start of a call"
    ]


def test_loose_finds_what_stands_in_prose(dragoman, write) -> None:
    text = b'I would call {"name": "get_weather", "arguments": {"city": "Rome"}} now.'
    options = ["parse", "--json", "--tools", write("tools.json", TOOLS)]
    assert dragoman(*options, stdin=text).data["calls"] == []
    (call,) = dragoman(*options, "--loose", stdin=text).data["calls"]
    assert call["arguments"] == {"city": "Rome"}
    assert call["provenance"]["region"] not in ("answer", "message")


def test_control_characters_cannot_repaint_the_terminal(dragoman) -> None:
    done = dragoman("parse", stdin=b"\x1b[2Jgone\x07\xc2\x9b31m")
    assert "\x1b" not in done.out and "\x07" not in done.out and "\x9b" not in done.out
    assert "\\u001b[2Jgone\\u0007" in done.out


def test_bytes_that_are_not_utf_8_are_noted_and_read(dragoman) -> None:
    done = dragoman("parse", "--json", stdin=b"caf\xe9 \xe2\x82")
    assert done.code == 0
    assert done.err.startswith("note: byte 3 is not UTF-8")
    assert done.data["text"] == "caf\ufffd \ufffd"


def test_a_lone_surrogate_survives_both_kinds_of_output(dragoman) -> None:
    text = rb'<tool_call>{"name": "a", "arguments": {"x": "\ud800"}}</tool_call>'
    for options in ([], ["--json"]):
        assert dragoman("parse", *options, stdin=text).code == 0


def test_line_endings_and_columns_count_code_points(dragoman) -> None:
    text = 'é\r\n😀 <tool_call>{"name": "a", "arguments": {}}</tool_call>'
    (call,) = dragoman("parse", "--json", stdin=text.encode()).data["calls"]
    assert (call["provenance"]["line"], call["provenance"]["column"]) == (2, 3)
    assert call["provenance"]["span"][0] == 5


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["no-such.txt"], "cannot read no-such.txt: no such file or directory", "check the path"),
        (["."], "cannot read .: is a directory", "check the path"),
        (["--format", "hermez", "-"], "unknown format 'hermez'; did you mean 'hermes'?", "dragoman formats"),
        (["--tools", "no-such.json", "-"], "cannot read no-such.json: no such file or directory", "check the path"),
        (["--colour", "-"], "no such option: --colour", "--help"),
    ],
)
def test_a_mistake_is_one_line_and_a_hint(dragoman, arguments: list[str], message: str, hint: str) -> None:
    done = dragoman("parse", *arguments)
    assert (done.code, done.out) == (2, "")
    told, next_step = done.err.splitlines()
    assert told.startswith(f"error: {message}")
    assert next_step.startswith("hint: ") and hint in next_step


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "tools.json is not JSON: "),
        (b"\xff", "tools.json is not JSON: "),
        (b"[" * 100_000, "tools.json is not JSON: "),
        (b"3", "tools.json contains a int instead of tools"),
        (b"null", "tools.json contains null instead of tools"),
        (b'[{"description": "nameless"}]', "a tool without a name"),
        (b"[1]", "not a tool: 1"),
    ],
)
def test_tools_that_cannot_be_read(dragoman, write, content: bytes, message: str) -> None:
    done = dragoman("parse", "--tools", write("tools.json", content), stdin=b"x")
    assert (done.code, done.out) == (2, "")
    told, next_step = done.err.splitlines()
    assert message in told
    assert next_step.startswith("hint: ")


@pytest.mark.parametrize("shape", ["%s", '{"tools": %s}'])
def test_tools_may_be_a_list_or_stand_in_a_request(dragoman, write, shape: str) -> None:
    path = write("tools.json", shape % TOOLS)
    assert dragoman("parse", "--json", "-t", path, stdin=HERMES.encode()).data["calls"][0]["known_tool"] is True


def test_tools_may_be_the_python_file_that_run_takes(dragoman, write) -> None:
    lines = ["import dragoman", "@dragoman.tool", "def get_weather(city: str, days: int = 1) -> str:", "    return ''"]
    path = write("tools.py", "\n".join(lines))
    assert dragoman("parse", "--json", "-t", path, stdin=HERMES.encode()).data["calls"][0]["arguments"]["days"] == 3


def test_at_a_keyboard_it_says_what_to_do(dragoman) -> None:
    done = dragoman("parse", stdin=None)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: there is no text to read\nhint: name a file")
