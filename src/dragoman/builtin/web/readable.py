"""Web pages rendered as readable text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple
from urllib.parse import urljoin

from msgspec import Struct

from dragoman.builtin.web.markup import BLOCKS, VOID, OpenElements, Token, names, tokens
from dragoman.builtin.web.selectors import Node, Places, Siblings, count_siblings, is_open
from dragoman.builtin.web.styles import Look, Sheet, TooManyStyles
from dragoman.characters import strip_invisible, unescape_html

# --------------------------------------------------------------------------------------------------------------------
# Pieces of a page put into lines: breaks are merged, spaces collapse, short table rows become one line.

# A row that is longer is no row of data but a way to arrange a page.
_LONGEST_ROW = 1500
_run_of_spaces = re.compile(r"[ \t\n\r\f]+")


Sign = Enum("Sign", "ROW CELL ROW_END")


class Break(NamedTuple):
    """At least so many line ends, and what the next line begins with. 0 is one more, in any case."""

    ends: int
    prefix: str
    drops_lead: bool = False
    """Whether a lead without a text behind it is forgotten here."""


class Prefix(str):
    """The sign of an item or a heading: it waits for the text that it stands before, whatever breaks lie between."""

    __slots__ = ()


class Verbatim(str):
    """Text whose spaces and lines are kept."""

    __slots__ = ()


Piece = str | Break | Sign


class Layout:
    """Collects the pieces of a page, up to a limit, and joins them at the end."""

    def __init__(self, limit: int) -> None:
        self.pieces: list[Piece] = []
        self.prefix = ""
        """What new lines begin with: the depth of a list, the marks of a quotation."""
        self.breaks = 0
        self.inked = 0
        """How many breaks and how many visible texts there were: remembered, they tell what came since."""
        self._left = limit

    @property
    def full(self) -> bool:
        return self._left <= 0

    def add(self, text: str) -> int:
        """Add a piece of text; its place can be used to change it later."""
        self._left -= len(text) + 1
        if text and not text.isspace():
            self.inked += 1
        self.pieces.append(text)
        return len(self.pieces) - 1

    def add_flowing(self, text: str) -> None:
        """Add text in which any run of spaces and line ends is one space."""
        self.add(_run_of_spaces.sub(" ", text))

    def end_line(self, count: int = 1, *, drops_lead: bool = False) -> None:
        """End the line; with a count of 2, leave an empty one; with 0, end it even if it is empty."""
        self.add_break(Break(count, self.prefix, drops_lead))

    def add_break(self, piece: Break | Sign) -> None:
        self.breaks += 1
        self._left -= 1
        self.pieces.append(piece)

    def render(self) -> str:
        """All pieces as one text."""
        joiner = _Joiner()
        for piece in self.pieces:
            joiner.take(piece)
        return joiner.finish()


class _Joiner:
    """Writes pieces one after the other. A row is held back until it ends or turns out to be too long for a line."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._wanted = 0
        self._prefix = self._lead = ""
        self._after_space = True
        self._row: list[Piece] | None = None
        self._row_size = 0

    def take(self, piece: Piece) -> None:
        if piece is Sign.ROW:
            self._spill_row()
            self._row, self._row_size = [], 0
        elif self._row is None:
            self._write(piece)
        elif piece is Sign.ROW_END:
            self._end_row(self._row)
        else:
            self._row.append(piece)
            self._row_size += len(piece) if isinstance(piece, str) else 1
            if self._row_size > _LONGEST_ROW or isinstance(piece, Verbatim):
                self._spill_row()

    def finish(self) -> str:
        self._spill_row()
        return "".join(self._out).rstrip(" \n").lstrip("\n")

    # ---- rows ------------------------------------------------------------------------------------------------------

    def _spill_row(self) -> None:
        """Write what was held back as if there were no table."""
        row, self._row = self._row, None
        for piece in row or ():
            self._write(piece)

    def _end_row(self, row: list[Piece]) -> None:
        texts = _cells_of(row)
        if len(texts) < 2:
            self._spill_row()
            self._end_line(1)
            return
        self._row = None
        self._end_line(1)
        self._write(" | ".join(texts))
        self._end_line(1)

    # ---- lines -----------------------------------------------------------------------------------------------------

    def _end_line(self, count: int) -> None:
        self._wanted = max(self._wanted, count) if count else min(self._wanted + 1, 2)

    def _write(self, piece: Piece) -> None:
        if isinstance(piece, Break):
            self._prefix = piece.prefix
            self._end_line(piece.ends)
            if piece.drops_lead:
                self._lead = ""
        elif isinstance(piece, Sign):
            self._end_line(1)
        elif isinstance(piece, Prefix):
            self._lead = self._prefix + piece
        else:
            self._write_text(piece)

    def _write_text(self, text: str) -> None:
        if not isinstance(text, Verbatim) and (self._wanted or self._after_space):
            text = text.lstrip(" ")
        if not text:
            return
        if self._wanted:
            self._begin_line()
        self._after_space = text.endswith(" ")
        self._out.append(text)

    def _begin_line(self) -> None:
        if self._out:
            if not isinstance(self._out[-1], Verbatim):
                self._out[-1] = self._out[-1].rstrip(" ")
            self._out.append("\n" * self._wanted)
        self._wanted = 0
        self._out.append(self._lead or self._prefix)
        self._lead = ""


def _cells_of(row: list[Piece]) -> list[str]:
    """The texts of the cells of a row, without empty ones at its end."""
    cells: list[list[str]] = [[]]
    for piece in row:
        if piece is Sign.CELL:
            cells.append([])
        else:
            cells[-1].append(piece if isinstance(piece, str) else " ")
    texts = [_run_of_spaces.sub(" ", "".join(cell)).strip() for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    return texts[1:] if texts and not texts[0] else texts


# --------------------------------------------------------------------------------------------------------------------
# Web pages as text that can be read: headings, lists, links, tables and code stay; scripts and menus go.
#
# What a person would not see is not shown to a model either, for that is where orders to models are hidden: comments,
# and elements that are hidden by an attribute, by their own style or by a style element of the page. They are counted.
# Style sheets in other files are not read, so what only these hide is still shown.

MOST_TEXT = 2_000_000
"""Characters of text that are made of one page at most."""
_MOST_OPEN = 200_000
_MOST_TOKENS = 500_000
_LONGEST_LINK = 1000

# Never content: what runs, what is drawn, and what a visitor would fill in.
_NOISE = names(
    "script style svg canvas noscript template object embed applet select datalist textarea iframe noembed noframes "
    "audio video map"
)
# Open from here to there, whether their tags are there or not.
_IGNORED = frozenset({"html", "head", "body"})
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_PARAGRAPHS = names("p ul ol dl table blockquote pre figure details hr xmp plaintext listing") | _HEADINGS.keys()
_PREFORMATTED = frozenset({"pre", "xmp", "plaintext", "listing"})
_AROUND = {"sup": ("^", ""), "code": ("`", "`"), "q": ('"', '"')}
"""What is put before and behind the text of an element."""
_DEEPEST = 6

# A browser continues these in the next block if nothing closes them. Only what hides or colours text matters here.
_CONTINUED = names("a b big code em font i nobr s small strike strong tt u")
_CELLS = names("caption object table td template th")
_MOST_CONTINUED = 6

_backticks = re.compile("`+")
_style_comment = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)


class Readable(Struct, frozen=True):
    """The text of a page, and what was left out of it."""

    text: str
    title: str = ""
    hidden: int = 0
    """Elements with text that a visitor would not have seen, by what the page itself says of them."""
    unseen: int = 0
    """Characters without a shape."""
    menus: int = 0
    """Navigation blocks."""
    cut: bool = False
    """Whether the page has more text or more tags, or is nested deeper, than is taken."""


class _Open(Struct, gc=False):
    """What is remembered of an open element until it ends."""

    drops: bool = False
    hides: bool = False
    silent: bool = False
    """Inside something that is dropped: its end does nothing."""
    place: int = -1
    breaks: int = 0
    inked: int = 0
    link: str = ""
    prefix: str = ""
    look: Look = Look()
    """How the text around it looks."""
    attributes: Mapping[str, str] | None = None
    """Its attributes, if a browser continues it in the next block and they change how text looks."""


def to_readable(source: str, address: str = "", *, limit: int = MOST_TEXT) -> Readable:
    """The text of an HTML page; `address` is what its links are relative to."""
    sheet = _read_styles(source)
    page = _Page(
        address, limit, sheet, count_siblings(islice(tokens(source), _MOST_TOKENS)) if sheet.counts_from_end else ()
    )
    for count, token in enumerate(tokens(source)):
        try:
            page.take(token)
        except TooManyStyles:
            page.cut = True
        if page.cut or page.layout.full or len(page.open) > _MOST_OPEN or count > _MOST_TOKENS:
            page.cut = True
            break
    return page.finish()


def _read_styles(source: str) -> Sheet:
    """The style elements of a page, also those behind the text that they hide."""
    if _has_styles(source) is None:
        return Sheet()
    found: list[tuple[str, str]] = []
    media: str | None = None
    for count, token in enumerate(tokens(source)):
        if token.kind == "start":
            media = token.attributes.get("media", "") if token.value == "style" else None
        elif token.kind == "text" and media is not None:
            found.append((media, token.value))
        if count > _MOST_TOKENS:
            break
    return Sheet(found)


_has_styles = re.compile(r"<style", re.IGNORECASE).search


class _Page:
    def __init__(self, address: str, limit: int, sheet: Sheet, totals: Sequence[tuple[int, int]]) -> None:
        self.layout = Layout(limit)
        self._sheet = sheet
        self._look = Look()
        self._is_seen = True
        self._nodes = [Node("html"), Node("body")]
        self._siblings = Siblings(totals)
        self._places: Places = (1, 1, 1, 1)
        self._number = 0
        self._counted = False
        self.open: OpenElements[_Open] = OpenElements()
        self.cut = False
        self._base = address
        self._dropping = 0
        self._hiding = 0
        self._hid_text = False
        self._hidden = self._unseen = self._menus = 0
        self._title: list[str] = []
        self._in_title = False
        self._preformatted = 0
        self._continued: list[tuple[str, Mapping[str, str]]] = []
        self._lists: list[int] = []
        """The number of the next item of each open list; -1 for lists without numbers."""
        self._links: dict[str, str] = {}
        if sheet:
            # Both elements are there, whether their tags are or not.
            self._begin_page("html", {})
            self._begin_page("body", {})

    def finish(self) -> Readable:
        title = " ".join("".join(self._title).split())
        return Readable(self.layout.render(), title[:500], self._hidden, self._unseen, self._menus, self.cut)

    # ---- tokens ----------------------------------------------------------------------------------------------------

    def take(self, token: Token) -> None:
        if token.kind == "text":
            self._text(token.value)
        elif token.kind == "end":
            if token.value == "br":
                self.layout.end_line(0)
            ended = self.open.ended_by_end(token.value)
            if not ended and token.value in _CONTINUED:
                self._continued = [each for each in self._continued if each[0] != token.value]
            self._leave_all(ended, ended[-1:])
        else:
            self._leave_all(self.open.ended_by_start(token.value), ())
            self._count(token.value)
            if token.value in VOID:
                self._void(token)
            elif token.value in ("html", "body") and not len(self.open):
                self._begin_page(token.value, token.attributes)
            elif token.value not in _IGNORED and is_open(token):
                self._enter(token.value, token.attributes)

    def _leave_all(self, ended: Sequence[tuple[str, _Open]], closed: Sequence[tuple[str, _Open]]) -> None:
        """Leave elements, the innermost first. Those that no tag of their own closed may be continued."""
        left: list[tuple[str, Mapping[str, str]]] = []
        for name, mark in ended:
            self._leave(name, mark)
            if mark.attributes is not None and (name, mark) not in closed:
                left.insert(0, (name, mark.attributes))
            if name in _CELLS:
                left = self._continued = []
        for each in left:
            if each not in self._continued and len(self._continued) < _MOST_CONTINUED:
                self._continued = [*self._continued, each]

    def _continue(self) -> None:
        """Open again what was never closed."""
        waiting, self._continued = self._continued, []
        for name, attributes in waiting:
            self._enter(name, attributes)

    def _count(self, name: str) -> None:
        """Remember which of its siblings the next element is."""
        if name == "body":
            self._siblings.begin_body()
        elif self._sheet and name not in _IGNORED:
            self._places = self._siblings.add(name, self._number)
            self._number += 1

    def _text(self, text: str) -> None:
        if self._continued and not text.isspace():
            self._continue()
        if self._in_title:
            self._title.append(self._seen(unescape_html(text)))
        elif not self._dropping and not self._is_seen:
            if not self._counted and not text.isspace():
                self._counted = True
                self._hidden += 1
        elif not self._dropping:
            text = self._seen(unescape_html(text))
            if self._preformatted:
                self.layout.add(Verbatim(text))
            else:
                self.layout.add_flowing(text)
        elif self._hiding and not self._hid_text and not text.isspace():
            self._hid_text = True
            self._hidden += 1

    def _seen(self, text: str) -> str:
        # A text may be spelled in characters without a shape that no person sees.
        text, count = strip_invisible(text)
        self._unseen += count
        return text

    def _void(self, token: Token) -> None:
        name, attributes = token.value, token.attributes
        if name == "base" and not self._links:
            self._base = self._absolute(attributes.get("href", "")) or self._base
        if self._dropping:
            return
        if name == "br":
            self.layout.end_line(0)
        elif name == "hr":
            self.layout.end_line(2)
            self.layout.add("---")
            self.layout.end_line(2)
        elif name == "img" and attributes.get("alt", "").strip() and not self._hides(name, attributes)[0]:
            self.layout.add_flowing(self._seen(f"[image: {attributes['alt'].strip()}]"))

    # ---- elements --------------------------------------------------------------------------------------------------

    def _begin_page(self, name: str, attributes: Mapping[str, str]) -> None:
        """The colours of the page. A script may show it later, so that nothing else counts here."""
        place = 0 if name == "html" else 1
        self._nodes[place] = _make_node(name, attributes, (1, 1, 1, 1))
        _, look = self._sheet.apply(self._nodes[place], self._nodes[:place], _own_style(attributes), self._look)
        self._look = Look(colour=look.colour, behind=look.behind, variables=look.variables)
        self._is_seen = self._look.is_seen

    def _hides(self, name: str, attributes: Mapping[str, str]) -> tuple[bool, Look]:
        """Whether an element is hidden with everything in it, and how its text looks otherwise."""
        if not attributes and not self._sheet:
            return name in _NEVER_SHOWN, self._look
        inline = _own_style(attributes)
        if "\\" in inline:
            # Nobody escapes letters in a style but to disguise it.
            return True, self._look
        node = _make_node(name, attributes, self._places) if self._sheet else _PLAIN_NODE
        hides, look = self._sheet.apply(node, self._nodes, inline, self._look)
        return hides or _is_hidden(name, attributes), look

    def _enter(self, name: str, attributes: Mapping[str, str]) -> None:
        hides, look = self._hides(name, attributes)
        drops = hides or name in _NOISE or name in ("nav", "title")
        mark = _Open(drops, hides, silent=bool(self._dropping) or drops, look=self._look)
        if name in _CONTINUED and (hides or look is not self._look):
            mark.attributes = attributes
        if look is not self._look:
            self._look, self._counted, self._is_seen = look, False, look.is_seen
        self._nodes.append(_make_node(name, attributes, self._places) if self._sheet else _PLAIN_NODE)
        self._siblings.enter()
        if name == "title" and not self._title and not self._dropping:
            self._in_title = True
        if not self._dropping and name == "nav":
            self._menus += 1
        if drops:
            self._dropping += 1
        if hides:
            if not self._hiding:
                self._hid_text = False
            self._hiding += 1
        if not mark.silent:
            self._begin(name, attributes, mark)
        self.open.push(name, mark)

    def _leave(self, name: str, mark: _Open) -> None:
        self._nodes.pop()
        self._siblings.leave()
        if mark.look is not self._look:
            self._look, self._is_seen = mark.look, mark.look.is_seen
        if name == "title":
            self._in_title = False
        if mark.drops:
            self._dropping -= 1
        if mark.hides:
            self._hiding -= 1
        if not mark.silent:
            self._end(name, mark)
        elif not self._dropping and name in BLOCKS and name not in _NOISE:
            self.layout.end_line()

    def _begin(self, name: str, attributes: Mapping[str, str], mark: _Open) -> None:
        layout = self.layout
        mark.prefix = layout.prefix
        if self._preformatted and name not in BLOCKS:
            return
        if name == "a":
            mark.link = self._absolute(attributes.get("href", ""))
            mark.place, mark.breaks, mark.inked = layout.add(""), layout.breaks, layout.inked
        elif name in _AROUND:
            mark.place, mark.inked = layout.add(""), layout.inked
        elif name == "tr":
            layout.add_break(Sign.ROW)
        elif name in ("td", "th"):
            layout.add_break(Sign.CELL)
        elif name in BLOCKS:
            self._begin_block(name, attributes, mark)

    def _begin_block(self, name: str, attributes: Mapping[str, str], mark: _Open) -> None:
        layout = self.layout
        within = name in ("ul", "ol") and bool(self._lists)
        if name == "blockquote" and layout.prefix.count(">") < 3:
            layout.prefix += "> "
        layout.end_line(2 if name in _PARAGRAPHS and not within else 1)
        if name in _HEADINGS:
            layout.add(Prefix(_HEADINGS[name]))
        elif name in ("ul", "ol", "menu"):
            start = attributes.get("start", "1")
            number = int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1
            self._lists.append(number if name == "ol" else -1)
        elif name == "li":
            self._begin_item()
        elif name == "dd":
            layout.add(Prefix(": "))
        elif name in _PREFORMATTED:
            self._preformatted += 1
            if self._preformatted == 1:
                mark.place = layout.add(Verbatim("```\n"))

    def _begin_item(self) -> None:
        sign = "- "
        if self._lists and self._lists[-1] >= 0:
            sign = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        self.layout.add(Prefix(sign))
        if len(self._lists) < _DEEPEST:
            self.layout.prefix += "  "

    def _end(self, name: str, mark: _Open) -> None:
        layout = self.layout
        layout.prefix = mark.prefix
        if name == "a":
            self._end_link(mark)
        elif name in _AROUND:
            if mark.place >= 0 and layout.inked > mark.inked:
                layout.pieces[mark.place], after = _AROUND[name]
                if after:
                    layout.add(after)
        elif name == "tr":
            layout.add_break(Sign.ROW_END)
        elif name in BLOCKS and name not in ("td", "th"):
            if name in ("ul", "ol", "menu") and self._lists:
                self._lists.pop()
            if name in _PREFORMATTED:
                self._end_preformatted(mark)
            leads = name in _HEADINGS or name in ("li", "dd")
            layout.end_line(2 if name in _PARAGRAPHS and not self._lists else 1, drops_lead=leads)

    def _end_link(self, mark: _Open) -> None:
        layout = self.layout
        if not mark.link or layout.inked == mark.inked:
            return
        if layout.breaks != mark.breaks:
            # A link around whole blocks: its address goes behind them.
            layout.add(f" <{mark.link}>")
        elif len(layout.pieces) != mark.place + 2 or layout.pieces[-1] != mark.link:
            layout.pieces[mark.place] = "["
            layout.add(f"]({mark.link})")

    def _end_preformatted(self, mark: _Open) -> None:
        self._preformatted -= 1
        if mark.place < 0:
            return
        layout = self.layout
        written = [piece for piece in layout.pieces[mark.place + 1 :] if isinstance(piece, str)]
        runs = [len(run) for piece in written for run in _backticks.findall(piece)]
        fence = "`" * max(3, max(runs, default=0) + 1)
        layout.pieces[mark.place] = Verbatim(fence + "\n")
        ends = bool(written) and written[-1].endswith("\n")
        layout.add(Verbatim(("" if ends else "\n") + fence))

    # ---- links -----------------------------------------------------------------------------------------------------

    def _absolute(self, href: str) -> str:
        """The address that a link leads to; empty where it leads nowhere else."""
        href = href.strip()
        if not href or href.startswith("#") or len(href) > _LONGEST_LINK:
            return ""
        if href not in self._links:
            self._links[href] = _joined(self._base, href)
        return self._links[href]


def _joined(base: str, href: str) -> str:
    try:
        address = urljoin(base, href)
    except ValueError:
        return ""
    address = address.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    usable = address.startswith(("http://", "https://", "mailto:")) and len(address) <= _LONGEST_LINK
    return address if usable and address.isprintable() else ""


def _is_hidden(name: str, attributes: Mapping[str, str]) -> bool:
    """Whether an element says of itself that it is not to be seen."""
    if not attributes:
        return name in _NEVER_SHOWN
    if "hidden" in attributes or "popover" in attributes:
        return True
    if name == "img" and {"0", "1"}.intersection((attributes.get("width"), attributes.get("height"))):
        return True
    return attributes.get("aria-hidden", "").strip().lower() == "true" or (
        name in _NEVER_SHOWN and "open" not in attributes
    )


_NEVER_SHOWN = frozenset({"dialog", "rp"})


def _own_style(attributes: Mapping[str, str]) -> str:
    """The style of an element itself, with its older attributes for colours."""
    style = attributes.get("style", "")
    if "/*" in style:
        style = _style_comment.sub("", style)
    if "bgcolor" in attributes:
        style = f"background-color:{attributes['bgcolor']};{style}"
    return f"color:{attributes['color']};{style}" if "color" in attributes else style


_PLAIN_NODE = Node("")


def _make_node(name: str, attributes: Mapping[str, str], places: Places) -> Node:
    classes = frozenset(attributes.get("class", "").split())
    return Node(name, attributes.get("id", ""), classes, attributes, places)
