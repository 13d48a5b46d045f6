"""`read`: a page of a file, as numbered lines.

Numbers stand before the lines because models then find their place again; what stands behind the tab is
exactly what is in the file, so that it can be given to `edit` as it is.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from typing import Annotated, Any

from dragoman.builtin.files.defining import file_tool
from dragoman.builtin.files.encodings import PLAIN, Encoding, is_binary, kind_of, marked
from dragoman.builtin.files.inspecting import ensure_approved, operands_of
from dragoman.builtin.files.likeness import absent_words
from dragoman.builtin.files.paging import LINE_CHARACTERS, Page, as_utf8, read_page
from dragoman.builtin.files.wording import counted, quoted, sized
from dragoman.builtin.files.workspace import Found, Workspace, explained, identity_of
from dragoman.tools import Context, Error
from dragoman.tools.results import part_of_bytes
from dragoman.types import Image

LINES = 2000
PIECE = 256 * 1024
"""Bytes that are read at a time."""
LARGEST_IMAGE = 3_750_000
"""Bytes of an image that is shown: in base64 these are 5 MB, more than that the providers refuse."""
_MOST_NAMES = 200


def read(
    path: Annotated[str, "file, relative to the workspace"],
    context: Context,
    offset: Annotated[int, "first line, from 1"] = 1,
    limit: Annotated[int, "number of lines"] = LINES,
) -> Any:
    """Read a file. Gives lines as: number, tab, text. Long files come in pages: go on with a larger offset."""
    with Workspace.of(context) as workspace:
        found = workspace.find(path)
        ensure_approved(context, operands_of(workspace, found, "read"))
        if found.kind == "folder":
            return _listing(workspace, found)
        if found.kind == "absent":
            raise Error(absent_words(workspace, found))
        descriptor = workspace.open_read(path)
        try:
            with explained(path, workspace.path):
                if context.operands and identity_of(os.fstat(descriptor)) != found.identity:
                    raise Error(f"{quoted(path)} changed while it was looked at; nothing was read")
                return _shown(descriptor, found.path, max(offset, 1), max(limit, 1), context)
        finally:
            os.close(descriptor)


def _shown(descriptor: int, path: str, offset: int, limit: int, context: Context) -> Any:
    head = os.read(descriptor, PIECE)
    if not head:
        return f"[{quoted(path)} is empty]"
    if is_binary(head):
        return _binary(descriptor, head, path)
    encoding = marked(head) or PLAIN
    page = read_page(as_utf8(_pieces(descriptor, head, context), encoding), offset, limit)
    if not page.lines:
        if not page.total:
            return f"[{quoted(path)} is empty but for a byte order mark ({encoding.words})]"
        raise Error(f"{quoted(path)} has {counted(page.total, 'line')}; offset={offset} is behind its end")
    lines = [f"{line.number}\t{line.text}{_missing(line.missing)}" for line in page.lines]
    return "\n".join([*lines, *_notes(page, encoding)])


def _pieces(descriptor: int, head: bytes, context: Context) -> Iterator[bytes]:
    piece = head
    while piece:
        yield piece
        if context.cancelled():
            raise Error("the call was given up before the page was found")
        piece = os.read(descriptor, PIECE)


def _missing(size: int) -> str:
    return f" [... {counted(size, 'more byte')} in this line, not shown]" if size else ""


def _notes(page: Page, encoding: Encoding) -> list[str]:
    """What is to be known beside the lines themselves, each in a line of its own without a number."""
    first, last = page.lines[0].number, page.lines[-1].number
    notes: list[str] = []
    if first > 1 or last < page.total or not page.complete:
        total = f"{page.total:,}" if page.complete else f"more than {page.total:,}"
        more = f"; continue with offset={last + 1}" if last < page.total or not page.complete else ""
        notes.append(f"lines {first}-{last} of {total}{more}")
    if encoding != PLAIN:
        notes.append(f"the file is {encoding.words}; edit and write keep that")
    unreadable = [line.number for line in page.lines if not line.readable]
    if unreadable:
        named = ", ".join(map(str, unreadable[:5])) + (", ..." if len(unreadable) > 5 else "")
        notes.append(f"not UTF-8, shown as latin-1: {'line' if len(unreadable) == 1 else 'lines'} {named}")
    if page.crlf:
        kinds = "lines end in CR LF" if not page.lf else "some lines end in CR LF and some in LF"
        notes.append(f"{kinds}, which is not shown")
    if any(line.missing for line in page.lines):
        notes.append(f"lines are cut after {LINE_CHARACTERS:,} characters; grep shows the place of a match in one")
    if page.unended and page.complete and last == page.total:
        notes.append("no line end at the end of the file")
    return [f"[{note}]" for note in notes]


def _binary(descriptor: int, head: bytes, path: str) -> Any:
    size = os.fstat(descriptor).st_size
    words = f"[{quoted(path)} is {kind_of(head)}, {sized(size)}"
    part = part_of_bytes(head[:64])
    if not isinstance(part, Image):
        return f"{words}; it is no text and is not shown]"
    if size > LARGEST_IMAGE:
        return f"{words}; too large to be shown]"
    content = bytearray(head)
    while len(content) <= LARGEST_IMAGE and (piece := os.read(descriptor, PIECE)):
        content += piece
    return [f"{words}]", Image(data=b64encode(content).decode(), media_type=part.media_type)]


def _listing(workspace: Workspace, found: Found) -> str:
    names = workspace.names(found.real)
    shown = [quoted(name) for name in names[:_MOST_NAMES]]
    if len(names) > len(shown):
        shown.append(f"[{len(shown)} of {len(names):,}; glob finds files by pattern]")
    return "\n".join([f"[{quoted(found.path)} is a folder with {counted(len(names), 'entry', 'entries')}]", *shown])


Read = file_tool("read", read, "read")
