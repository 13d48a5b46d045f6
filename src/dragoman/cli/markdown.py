"""The Markdown of a model on a terminal, while it arrives.

A finished block is printed once. Only the last one, which may still change, is drawn again. So nothing flickers, and
the rows that left the screen are never needed again. Every text of the source is shown: HTML, the targets of links and
images, and the definitions of references are text.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import Iterable
from functools import cache
from typing import IO, Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from pygments.lexers import get_all_lexers  # type: ignore[import-untyped]
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListElement, Markdown, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from dragoman.characters import escape_line

_LONGEST_BLOCK = 20_000
"""Characters of a block. A longer one is divided: each piece of it would be drawn again and again."""
_CONTEXT_LINES = 40
"""Lines of code before a line that decide about its colours."""
_SHORTEST_PAUSE = 0.03
_COST_FACTOR = 5
"""The pause after a drawing is this many times as long as the drawing took."""
_NARROWEST = 20
_DEEPEST = 14
_THEME = "ansi_dark"
_LISTS = ("bullet_list_open", "ordered_list_open")


# ---- from Markdown to rows -------------------------------------------------------------------------------------------


class _Code(CodeBlock):
    """A block of code inside another block: no background, so that it can be copied without blanks."""

    def __init__(self, lexer_name: str, theme: str) -> None:
        super().__init__(lexer_name, theme)
        self.first = self.last = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Code:
        code = cls(_language_of(token), _THEME)
        # The lines around the code are shown as they are around the outermost blocks.
        code.first, code.last = f"{token.markup}{token.info}", token.markup
        return code

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        syntax = Syntax(
            str(self.text).rstrip(), self.lexer_name, theme=_THEME, word_wrap=True, background_color="default"
        )
        yield from (Text(self.first, "dim"), syntax, Text(self.last, "dim")) if self.last else (syntax,)


def _language_of(token: Token) -> str:
    """The language of a block of code, if pygments itself knows it.

    For any other name, pygments would search the installed packages, and load one that a tool may have made.
    """
    name = token.info.strip().partition(" ")[0].lower()
    return name if name in _languages() else "text"


@cache
def _languages() -> frozenset[str]:
    return frozenset(alias for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)


class _Heading(Heading):
    LEVEL_ALIGN = {f"h{level}": "left" for level in range(1, 7)}  # noqa: RUF012


class _OneItem(ListElement):
    """A list. Each item is printed on its own, so the width of its number must not depend on the others."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.list_type == "bullet_list_open":
            yield from super().__rich_console__(console, options)
            return
        for number, item in enumerate(self.items, self.list_start or 0):
            mark = f"{number}.".rjust(3) + " "
            rows = console.render_lines(item.elements, options.update(width=options.max_width - len(mark)))
            for place, row in enumerate(rows):
                yield Segment(mark if place == 0 else " " * len(mark), console.get_style("markdown.item.number"))
                yield from row
                yield Segment.line()


class _Table(TableElement):
    """A table that cuts no cell: if it is too wide, each row becomes a list of its cells."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        columns = list(zip(*([heads, *rows] if rows else [heads]), strict=True))
        words = [max(_longest_word(cell) for cell in column) for column in columns]
        if sum(words) + 2 * len(words) > options.max_width:
            yield from _stack(heads, rows)
            return
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for head in heads:
            table.add_column(head, overflow="fold", justify=head.justify or "left")
        for row in rows:
            table.add_row(*row)
        yield table


def _longest_word(cell: Text) -> int:
    return max((word.cell_len for word in cell.split(" ")), default=0)


def _stack(heads: list[Text], rows: list[list[Text]]) -> Iterable[Text]:
    if not rows:
        yield Text(" ").join(heads)
    for row in rows:
        for number, (head, cell) in enumerate(zip(heads, row, strict=True)):
            mark = "" if number == 0 else "  "
            yield Text.assemble(mark, (head.plain, "bold"), ": " if head.plain else "", cell)


class _Document(Markdown):
    """Rich's Markdown, without what rich leaves out or makes clickable: a target must be seen."""

    elements = Markdown.elements | {
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
        "bullet_list_open": _OneItem,
        "ordered_list_open": _OneItem,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser().parse(text)
        for token in self.parsed:
            if token.children:
                token.children = list(_show_all(token.children))


def _show_all(tokens: list[Token]) -> Iterable[Token]:
    """The parts of a line: a line break stays one, and the address of an image or a link is text."""
    for place, token in enumerate(tokens):
        if token.type == "softbreak":
            yield Token("hardbreak", "br", 0)
        elif token.type == "image":
            yield Token("text", "", 0, content=f"![{token.content}]({_address(token, 'src')})")
        elif token.type == "link_open":
            inner = tokens[place + 1] if place + 1 < len(tokens) else token
            token.attrs["href"] = _address(token, "href")
            is_bare = inner.type == "text" and inner.content == token.attrs["href"]
            yield Token("text", "", 0) if is_bare else token
        else:
            yield token


def _address(token: Token, name: str) -> str:
    title = token.attrs.get("title")
    return escape_line(str(token.attrs.get(name, "")) + (f' "{title}"' if title else ""))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    # An entity could spell a character that was escaped before. Definitions of references would not be shown at all.
    return parser.disable(["entity", "reference", "autolink"])


class Renderer:
    """Turns Markdown, or a line of code, into the rows of a terminal."""

    def __init__(self, console: Console) -> None:
        self._color_system: Any = console.color_system

    def block(self, text: str, width: int) -> list[str]:
        """The rows of some blocks. A text that rich cannot draw is shown as it is."""
        try:
            document = _Document(text)
            depth = max((token.level for token in document.parsed), default=0)
            # Rich indents until no room is left, and markdown-it reads so many levels: both drop the rest.
            if depth <= min(_DEEPEST, (width - _NARROWEST) // 2):
                return _trim(self._rows(document, width))
        except Exception:
            pass
        return _trim(self._rows(Text(text.strip("\n")), width))

    def code(self, line: str, before: list[str], language: str, width: int) -> list[str]:
        """The rows of a line of code, in the colours that it has behind the lines before it."""
        lines = [*before[-_CONTEXT_LINES:], line]
        syntax = Syntax("", language, theme=_THEME, background_color="default")
        try:
            last = syntax.highlight("\n".join(lines)).split("\n", allow_blank=True)[len(lines) - 1]
        except Exception:
            last = Text(line)
        # A lexer may drop blank lines at the beginning.
        shown = last if last.plain == line else Text(line)
        shown.expand_tabs(4)
        return self._rows(shown, width) or [""]

    def dim(self, line: str, width: int) -> list[str]:
        return self._rows(Text(line, "dim"), width)

    def _rows(self, content: Any, width: int) -> list[str]:
        out = io.StringIO()
        console = Console(
            file=out,
            width=max(width, _NARROWEST),
            force_terminal=True,
            color_system=self._color_system,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
        console.print(content, overflow="fold")
        return [row.rstrip() for row in out.getvalue().removesuffix("\n").split("\n")]


def _trim(rows: list[str]) -> list[str]:
    """The rows without blank ones at both ends: the writer separates the blocks."""
    filled = [number for number, row in enumerate(rows) if row]
    return rows[filled[0] : filled[-1] + 1] if filled else []


# ---- the rows that may still change ----------------------------------------------------------------------------------


class LiveRows:
    """The last rows on the screen. The cursor is behind the last one."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._rows: list[str] = []
        self._size = self.size()

    def size(self) -> tuple[int, int]:
        """The columns and rows of the terminal."""
        try:
            found = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            found = os.terminal_size((80, 24))
        return found.columns or 80, found.lines or 24

    def show(self, rows: list[str]) -> None:
        """Replace the rows that differ. If they do not fit on the screen, show the last ones."""
        self._replace(rows[-max(self._fresh_size()[1] - 1, 1) :])

    def finish(self, rows: list[str]) -> None:
        """Replace the rows for the last time, and begin a new line behind them."""
        self._fresh_size()
        self._replace(rows)
        if rows:
            self._write("\n")
        self._rows = []

    def _fresh_size(self) -> tuple[int, int]:
        size = self.size()
        if size[0] != self._size[0] and self._rows:
            # Some terminals broke the rows anew, others cut them: nobody knows where they begin. They stay.
            self._write("\n")
            self._rows = []
        self._size = size
        return size

    def _replace(self, rows: list[str]) -> None:
        old, same = self._rows, 0
        while same < min(len(old), len(rows)) and old[same] == rows[same]:
            same += 1
        if same == len(rows) < len(old) and rows:
            # The cursor has to come to the end of a row that stays.
            same -= 1
        self._rows = rows
        if same == len(old):
            added = rows[same:]
            self._write("".join(f"\n{row}" for row in added) if old else "\n".join(added))
        elif same == len(old) - 1 and same < len(rows) and "\x1b" not in old[same] and rows[same].startswith(old[same]):
            self._write("\n".join([rows[same][len(old[same]) :], *rows[same + 1 :]]))
        else:
            up = len(old) - 1 - same
            self._write((f"\x1b[{up}A" if up else "") + "\r\x1b[J" + "\n".join(rows[same:]))

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()


# ---- the writer ------------------------------------------------------------------------------------------------------


class _Fence(Struct):
    """A block of code at the outermost level, which is printed line by line."""

    mark: str
    language: str
    indent: int
    lines: list[str]

    def ends_with(self, line: str) -> bool:
        bare = line.strip()
        return len(bare) >= len(self.mark) and not bare.strip(self.mark[0]) and _indent_of(line) < 4

    def content(self, line: str) -> str:
        return line[min(self.indent, _indent_of(line)) :]


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class MarkdownWriter:
    """Prints Markdown that arrives in pieces. Any way of cutting the text ends with the same screen."""

    def __init__(self, out: IO[str]) -> None:
        self._live = LiveRows(out)
        self._renderer = Renderer(Console(file=out))
        self._pending = ""
        self._fence: _Fence | None = None
        self._last_kind = ""
        self._next_drawing = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether something is shown that is not finished."""
        return bool(self._pending) or self._fence is not None

    def feed(self, text: str) -> None:
        self._pending += text
        if "\n" in text:
            self._advance()
        if len(self._pending) > _LONGEST_BLOCK:
            self._divide()
        self._draw_soon()

    def close(self) -> None:
        """The text has ended: finish the last block."""
        self._cancel_timer()
        if self._pending and not self._pending.endswith("\n"):
            self._pending += "\n"
        self._advance()
        if self._pending.strip():
            self._finish_block(self._pending)
        self._pending, self._fence, self._last_kind = "", None, ""
        self._live.finish([])

    # ---- drawing -----------------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        # A row that fills the last column leaves the cursor in a place that terminals disagree about.
        return self._live.size()[0] - 1

    def _draw_soon(self) -> None:
        wait = self._next_drawing - time.monotonic()
        if wait <= 0:
            self._draw()
        elif self._timer is None:
            with contextlib.suppress(RuntimeError):
                self._timer = asyncio.get_running_loop().call_later(wait, self._draw_late)

    def _draw_late(self) -> None:
        self._timer = None
        # Nobody waits for this call: if the terminal is gone, the next piece of text fails.
        with contextlib.suppress(OSError, ValueError):
            self._draw()

    def _draw(self) -> None:
        self._cancel_timer()
        began = time.monotonic()
        if self._fence is not None:
            rows = self._code_rows(self._fence, self._pending, self._width) if self._pending else []
        else:
            rows = self._block_rows(self._pending)
        self._live.show(rows)
        now = time.monotonic()
        self._next_drawing = now + max(_SHORTEST_PAUSE, (now - began) * _COST_FACTOR)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _code_rows(self, fence: _Fence, line: str, width: int) -> list[str]:
        return self._renderer.code(fence.content(line), fence.lines, fence.language, width)

    def _block_rows(self, text: str) -> list[str]:
        rows = self._renderer.block(text, self._width)
        return ["", *rows] if rows and self._needs_gap(text) else rows

    def _needs_gap(self, text: str) -> bool:
        """Whether a blank row is before a block: between all but the items of a list."""
        if not self._last_kind:
            return False
        return self._last_kind not in _LISTS or self._kind_of(text) != self._last_kind

    def _kind_of(self, text: str) -> str:
        return next((token.type for token in _parser().parse(text) if token.level == 0), "")

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Print the blocks, and the lines of code, that are finished."""
        while self._advance_code() if self._fence is not None else self._advance_blocks():
            pass

    def _advance_blocks(self) -> bool:
        """Print all blocks but the last. Returns True if a block of code begins."""
        complete, _, rest = self._pending.rpartition("\n")
        if not complete:
            return False
        lines = complete.split("\n")
        starts = [*_find_starts(_parser().parse(complete + "\n"))]
        for number, (start, token) in enumerate(starts):
            if token.type == "fence" and token.level == 0:
                self._pending = "\n".join([*lines[start + 1 :], rest])
                self._open_fence(lines[start], token)
                return True
            if number == len(starts) - 1:
                self._pending = "\n".join([*lines[start:], rest])
                break
            self._finish_block("\n".join(lines[start : starts[number + 1][0]]))
        return False

    def _finish_block(self, text: str) -> None:
        self._live.finish(self._block_rows(text))
        self._last_kind = self._kind_of(text) or self._last_kind

    def _divide(self) -> None:
        """Finish a part of a block that is too long."""
        text = self._pending
        place = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
        self._pending = text[place:]
        if self._fence is not None:
            self._live.finish(self._code_rows(self._fence, text[:place], _LONGEST_BLOCK))
        else:
            self._finish_block(text[:place])

    # ---- code --------------------------------------------------------------------------------------------------------

    def _open_fence(self, line: str, token: Token) -> None:
        gap = [""] if self._last_kind else []
        self._live.finish([*gap, *self._renderer.dim(line.strip(), self._width)])
        self._fence = _Fence(token.markup, _language_of(token), _indent_of(line), [])
        self._last_kind = "fence"

    def _advance_code(self) -> bool:
        """Print the finished lines of code. Returns True if the block of code has ended."""
        fence = self._fence
        assert fence is not None
        while "\n" in self._pending:
            line, _, self._pending = self._pending.partition("\n")
            if fence.ends_with(line):
                self._live.finish(self._renderer.dim(line.strip(), self._width))
                self._fence = None
                return True
            # The terminal itself breaks a long line, so that it is copied as one.
            self._live.finish(self._code_rows(fence, line, _LONGEST_BLOCK))
            fence.lines = [*fence.lines[-_CONTEXT_LINES:], fence.content(line)]
        return False


def _find_starts(tokens: list[Token]) -> Iterable[tuple[int, Token]]:
    """Where the blocks begin, and the items of the outermost lists."""
    inside_list = False
    for token in tokens:
        if token.level == 0:
            inside_list = token.type in _LISTS
        is_start = token.level == 0 and not inside_list and token.nesting >= 0
        is_item = inside_list and token.level == 1 and token.type == "list_item_open"
        if token.map is not None and (is_start or is_item):
            yield token.map[0], token
