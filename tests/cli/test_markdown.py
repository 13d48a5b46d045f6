"""Answers as Markdown on a terminal: nothing is lost, any way of cutting gives the same screen, nothing is obeyed."""

from __future__ import annotations

import io
import random
import re
from typing import Any

import pytest
from pygments.lexers import get_lexer_by_name
from rich.cells import cell_len
from tests.cli.commands import draw

from dragoman.characters import escape_text
from dragoman.cli import markdown
from dragoman.cli.markdown import LiveRows, MarkdownWriter
from dragoman.cli.render import ScreenView
from dragoman.events import TextDelta

BLOCKS = {
    "heading": "# Head one",
    "setext": "Head two\n===",
    "paragraph": "Some **bold** and *slanted* and `inline code` words\nwith a second line that is rather long.",
    "html": '<div class="box">inside</div>\n\nList<int> and <tool_call>{"name": 1}</tool_call>',
    "link": 'See [the page](http://example.org/a?b=1 "its title"), <http://auto.example> and ![image](http://x/y.png).',
    "reference": "[ref]: http://definition.example\n\n[ref] again",
    "bullets": "- alpha\n- beta\n  - gamma\n    - delta\n- epsilon\n\n  second paragraph\n",
    "numbers": "1. one\n2. two\n10. ten\n",
    "tasks": "* [ ] open\n* [x] done",
    "code": '```python\ndef f(x):\n    """Doc."""\n\n    return x  # and a long comment that the terminal breaks\n```',
    "open code": "~~~\nnever closed ``` inside",
    "code in a list": "- item\n\n  ```sh\n  ls -l\n  ```\n",
    "indented code": "    indented code\n    more",
    "table": "| city | degrees |\n|---|---:|\n| Paris | 21 |\n| 東京都 | 18 |",
    "wide table": "| "
    + " | ".join(f"column{n}" for n in range(9))
    + " |\n"
    + "|---" * 9
    + "|\n"
    + "| value " * 9
    + "|",
    "quote": "> quoted\n> > deeper\n> lazy",
    "rule": "above\n\n---\n\nbelow",
    "wide": "日本語のとても長い文章がここにありますので折り返しが必要になるはずですよね。",
    "long word": "x" * 150,
    "entities": "&lt;b&gt; &#x202e;reversed&#8238; &amp; &#27;[31m",
    "deep": "\n".join("  " * depth + "- level" + str(depth) for depth in range(18)),
    "emphasis left open": "an **open mark and _another [link](",
    "escapes": "\\*not slanted\\* and a \\\\ backslash",
}
SIZES = ((24, 5), (40, 24), (80, 24), (120, 50))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece is drawn."""
    monkeypatch.setattr(markdown, "_SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr(markdown, "_COST_FACTOR", 0.0)


def show(text: str, cuts: list[int], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The screen after the text arrived in pieces, each drawn."""
    monkeypatch.setattr(LiveRows, "size", lambda _: size)
    out = io.StringIO()
    writer = MarkdownWriter(out)
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        writer.feed(text[start:end])
    writer.close()
    rows = draw(out.getvalue().replace("\n", "\r\n"), size[0])
    while rows and not rows[-1]:
        rows.pop()
    return rows


def words_of(text: str) -> str:
    """Letters and digits. The marks of Markdown are not shown, and the numbers and names of columns may be added."""
    return re.sub(r"[^\w]|_", "", text)


def holds(shown: str, wanted: str) -> bool:
    """Whether all characters are there in their order."""
    rest = iter(shown)
    return all(character in rest for character in wanted)


def test_nothing_is_lost_at_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in BLOCKS.items():
        for size in SIZES:
            rows = show(text, [], size, monkeypatch)
            shown = words_of("".join(rows))
            # A table that is too wide names the column before each cell.
            is_there = shown.count("value") == 9 if name == "wide table" else holds(shown, words_of(text))
            assert is_there, (name, size, rows)
            assert all(cell_len(row) <= size[0] for row in rows), (name, size)


def test_the_way_of_cutting_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(7)
    names = list(BLOCKS)
    for number in range(24):
        chosen = generator.sample(names, 3)
        text = "\n\n".join(BLOCKS[name] for name in chosen) + generator.choice(["", "\n", "\n\n"])
        size = SIZES[number % len(SIZES)]
        if size[1] < 10:
            size = (size[0], 24)
        whole = show(text, [], size, monkeypatch)
        cuts = sorted(generator.sample(range(1, len(text)), min(40, len(text) - 1)))
        assert show(text, cuts, size, monkeypatch) == whole, (chosen, size, cuts)
        if number < 6:
            assert show(text, list(range(1, len(text))), size, monkeypatch) == whole, (chosen, size)


def test_a_block_that_is_taller_than_the_screen_is_whole_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that left the screen cannot be drawn again, so the cursor never goes up by more than the screen has rows."""
    text = " ".join(f"word{number}" for number in range(200))
    monkeypatch.setattr(LiveRows, "size", lambda _: (40, 10))
    out = io.StringIO()
    writer = MarkdownWriter(out)
    for place in range(0, len(text), 7):
        writer.feed(text[place : place + 7])
    writer.close()
    ups = [int(number) for number in re.findall(r"\x1b\[(\d+)A", out.getvalue())]
    assert ups and max(ups) < 10
    last = out.getvalue().rpartition("\x1b[J")[2]
    assert all(f"word{number}" in last for number in range(200)), "all of it is printed at the end"


def test_a_change_of_the_width_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    size = [80, 24]
    monkeypatch.setattr(LiveRows, "size", lambda _: tuple(size))
    out = io.StringIO()
    writer = MarkdownWriter(out)
    writer.feed("before the change\n\nthe block that is drawn while ")
    size[0] = 40
    place = len(out.getvalue())
    writer.feed("the width changes and goes on\n\nafter")
    writer.close()
    assert out.getvalue()[place:].startswith("\nbefore the change\n"), "the rows of the old width stay"
    rows = " ".join(" ".join(draw(out.getvalue().replace("\n", "\r\n"), 40)).split())
    assert "before the change" in rows
    assert "the block that is drawn while the width changes and goes on after" in rows


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long line without an end is divided, and a line of code is drawn with the last lines before it only."""
    drawn: list[int] = []
    real = markdown.Renderer._rows

    def count(self: Any, content: Any, width: int) -> list[str]:
        drawn.append(len(getattr(content, "plain", "")))
        return real(self, content, width)

    monkeypatch.setattr(markdown.Renderer, "_rows", count)
    text = "word " * 20_000
    writer = MarkdownWriter(out := io.StringIO())
    for place in range(0, len(text), 5000):
        writer.feed(text[place : place + 5000])
    writer.close()
    assert out.getvalue().count("word") >= 20_000
    assert max(drawn, default=0) <= 30_000
    lexed: list[int] = []
    monkeypatch.setattr(markdown, "Syntax", lambda code, *_, **__: pytest.fail("not here"))
    monkeypatch.setattr(markdown.Renderer, "code", lambda self, line, before, *_: lexed.append(len(before)) or [line])
    writer = MarkdownWriter(io.StringIO())
    writer.feed("```python\n" + "x = 1\n" * 500 + "```\n")
    writer.close()
    assert len(lexed) >= 500 and max(lexed) <= 41


HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x9b31m \u202ereversed\u202c \u200bzero \rover",
    "[click](javascript:alert(1)) [\u202etext](http://x/\u202e) ![\x1b[31m](\x1b]8;;http://evil\x07)",
    "```\x1b[31m\ncode \x1b[32m\x07\n```",
    "&#x1b;[31m &#x202e; &#155;",
    "| \x1b[31m | \u202e |\n|---|---|\n| \x07 | \r |",
)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_text_of_the_model_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for text in HOSTILE:
        view = ScreenView(out := _Terminal(), quiet=True)
        for character in text:
            view.show(TextDelta(character))
        view.restore()
        written = out.getvalue()
        # What is left are the colours and movements of the writer itself.
        bare = re.sub(r"\x1b\[[0-9;]*[mAJ]|[\r\n]", "", written)
        assert escape_text(bare) == bare, (text, written)
        assert "\x1b]8" not in written and "title\x07" not in written
        assert "31m" not in "".join(re.findall(r"\x1b\[[0-9;]*m", written)), text


def test_an_error_of_the_renderer_shows_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise AssertionError(text)

    monkeypatch.setattr(markdown, "_Document", fail)
    assert show("**text**\n\nmore", [], (40, 24), monkeypatch) == ["**text**", "", "more"]


def test_a_language_loads_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool may have made a package that offers the lexer of a language."""
    searches: list[str] = []
    own = get_lexer_by_name.__globals__
    monkeypatch.setitem(own, "find_plugin_lexers", lambda: searches.append("search") or iter(()))
    for language in ("evil", "python", "PYTHON", "", "text html"):
        text = f"```{language}\nx = 1\n```\n\n- item\n\n  ```{language}\n  y = 2\n  ```\n"
        rows = show(text, [], (40, 24), monkeypatch)
        assert [row.strip() for row in rows if "=" in row] == ["x = 1", "y = 2"]
    assert searches == []
