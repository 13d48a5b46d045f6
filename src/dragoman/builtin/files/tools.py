"""The file tools `read`, `write`, `edit` and `glob`."""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from dragoman.builtin.files.atomic import Change, apply_changes
from dragoman.builtin.files.text import (
    LINE_CHARACTERS,
    PLAIN,
    Encoding,
    Page,
    absent_words,
    as_utf8,
    count_of,
    encoding_of,
    is_binary,
    kind_of,
    line_end_of,
    marked,
    miss_words,
    numbered,
    places_of,
    read_page,
)
from dragoman.builtin.files.tree import PathPattern, Walk, split_base
from dragoman.builtin.files.workspace import Found, OutsideError, Workspace, counted, explained, identity_of, quoted
from dragoman.own_code import is_below, is_own_code
from dragoman.sandbox.protected_names import is_protected
from dragoman.sandbox.protection import closing, is_protected_place
from dragoman.tools import Context, Error, ToolContext, tool_from_function
from dragoman.tools.results import part_of_bytes
from dragoman.types import Access, Image, JsonObject, Operand, Tool

# --------------------------------------------------------------------------------------------------------------------
# What a call of a file tool is about, for rules and approvals; and whether that is still so when it runs.


def operands_at(workspace: Workspace, given: str, access: Access) -> list[Operand]:
    """The operands of one path; of a file that would be changed, with its content as a digest.

    A path that goes over a link has two: the one that was given and the one behind it. Rules see both, so that a link
    never turns a path that is forbidden into one that is allowed.
    """
    try:
        found = workspace.find(given, digest=access == "write")
    except OutsideError:
        path = os.path.normpath(os.path.join(workspace.path, given))
        real = os.path.realpath(path)
        protected = is_protected(path) or is_protected(real)
        return [Operand("path", path, access, real, inside=False, protected=protected)]
    except Error:
        # No file can be there: a loop of links, a name that is too long. The call will say so.
        real = f"{workspace.path}/{given}"
        return [Operand("path", given, access, real, protected=is_protected(given))]
    return operands_of(workspace, found, access)


def operands_of(workspace: Workspace, found: Found, access: Access) -> list[Operand]:
    """The same for what has been looked up already."""
    real = workspace.absolute(found.real)
    # Whoever works in his home folder did not mean his keys by it.
    is_inside = not any(is_below(real, secret) for secret in workspace.secrets)
    values = [found.real] if found.path == found.real else [found.real, found.path]
    is_protected_here = found.protected or any(is_own_code(workspace.absolute(each), workspace.path) for each in values)
    if access == "write" and not is_protected_here:
        is_protected_here = is_protected_place(real, workspace.path, workspace.protected_places)
    return [
        Operand(
            "path",
            value,
            access,
            real=real,
            inside=is_inside,
            protected=is_protected_here,
            identity=found.identity,
            digest=found.digest if access == "write" else "",
        )
        for value in values
    ]


def find_approved(workspace: Workspace, path: str, access: Access, context: ToolContext) -> Found:
    """What is at a path, as it was when the call was decided on; of what is changed, with a digest."""
    found = workspace.find(path, digest=access == "write")
    ensure_approved(context, operands_of(workspace, found, access))
    return found


def ensure_approved(context: ToolContext, operands: Iterable[Operand]) -> None:
    """Refuse to go on where something is not what it was when the call was decided on.

    Of what is only read, the place has to be the same; of what is changed, also the file and its content.
    """
    if not context.operands:
        return
    approved = {(each.value, each.access): each for each in context.operands if each.kind == "path"}
    for now in operands:
        then = approved.get((now.value, now.access))
        if then is None:
            raise Error(f"{quoted(now.value)} is not part of what was approved; nothing was done")
        same = then.real == now.real and then.inside == now.inside
        if now.access == "write":
            same = same and then.identity == now.identity and then.digest == now.digest
        if not same:
            raise Error(
                f"{quoted(now.value)} changed since this call was approved; nothing was done. Look at it and call again"
            )


# --------------------------------------------------------------------------------------------------------------------
# How the file tools are made: as any other tool, and with what rules and approvals need to know besides.

Inspect = Callable[[JsonObject, ToolContext], Iterable[Operand]]


def file_tool(
    name: str, function: Callable[..., Any], family: Literal["read", "write"], inspect: Inspect | None = None
) -> Tool:
    """A tool that reads files, or one that changes them; both know their operands."""
    reads = family == "read"
    metadata: dict[str, Any] = {"class": family, "family": family, "origin": "builtin"}
    if not reads:
        # They act on the system, and secrets that were hidden from the model are put back into what they write.
        metadata |= {"exec": True, "restores": True}
    made = tool_from_function(
        function, {"name": name, "parallel_safe": reads, "read_only": reads, "repeatable": reads, "metadata": metadata}
    )
    return msgspec.structs.replace(made, inspect=inspect or inspect_path("read" if reads else "write"))


def inspect_path(access: Access, default: str | None = None) -> Inspect:
    """The operands of a tool that works on one path, in its argument `path`."""

    def inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
        path = arguments.get("path", default)
        if not isinstance(path, str):
            return []  # Such a call does not run.
        with Workspace.of(context) as workspace:
            return operands_at(workspace, path, access)

    return inspect


# --------------------------------------------------------------------------------------------------------------------
# Putting one text in place of another, on the bytes of a file: what is not replaced stays as it is, bit by bit.

MOST_PLACES = 200_000
"""Places of one text in a file that is edited."""
_BARE_LINE_END = re.compile(r"(?<!\r)\n")


class Substitution(Struct, frozen=True):
    """Where a text was found, and what is to come in its place."""

    places: list[int]
    """Offsets in the old content."""
    old: bytes
    wanted: bytes
    new: bytes
    encoding: Encoding
    crlf: bool = False
    """Line ends were taken for CR LF, as they are in the file."""

    @property
    def size(self) -> int:
        """Bytes of the new content, known before it is built: a few bytes in a million places are gigabytes."""
        return len(self.old) + len(self.places) * (len(self.new) - len(self.wanted))

    def content(self) -> bytes:
        """The content with the new text in all places."""
        starts = [0, *(place + len(self.wanted) for place in self.places)]
        ends = [*self.places, len(self.old)]
        return self.new.join([self.old[start:end] for start, end in zip(starts, ends, strict=True)])

    def line_of(self, place: int) -> int:
        return count_of(self.old[:place], self.encoding.encode("\n"), self.encoding.width) + 1


def substitute(content: bytes, old: str, new: str) -> Substitution | None:
    """How every `old` of the content is replaced; None where there is none. Raises UnicodeEncodeError where the
    encoding of the file does not hold the new text, and Error where the places are too many.

    The texts are put into the encoding of the file. In a file whose lines end in CR LF, a line end of the texts means
    CR LF as well; in a mixed one it means what is there.
    """
    for encoding in _readings(content):
        line_end = line_end_of(content, encoding)
        spellings = [(old, new, False)]
        if line_end != "\n" and "\n" in old + new:
            crlf = (_BARE_LINE_END.sub("\r\n", old), _BARE_LINE_END.sub("\r\n", new), True)
            # A text without a line end is found either way: then the new one goes by how the whole file is.
            spellings = [crlf] if line_end == "\r\n" else [*spellings, crlf]
        for wanted, replacement, is_crlf in spellings:
            found = _find(content, wanted, encoding)
            if found is not None:
                changed = is_crlf and (wanted, replacement) != (old, new)
                return Substitution(found[0], content, found[1], encoding.encode(replacement), encoding, changed)
    return None


def _readings(content: bytes) -> list[Encoding]:
    """The encodings to look in: a file that is not UTF-8 throughout may still be so in the lines that were shown."""
    encoding = encoding_of(content)
    return [encoding, PLAIN] if encoding.name == "latin-1" else [encoding]


def _find(content: bytes, text: str, encoding: Encoding) -> tuple[list[int], bytes] | None:
    try:
        wanted = encoding.encode(text)
    except UnicodeEncodeError:
        return None
    if (count := content.count(wanted)) > MOST_PLACES:
        raise Error(f"the file contains this text {count:,} times; up to {MOST_PLACES:,} can be replaced")
    places = places_of(content, wanted, encoding.width)
    return (places, wanted) if places else None


# --------------------------------------------------------------------------------------------------------------------
# `read`: a page of a file, as numbered lines.
#
# Numbers stand before the lines because models then find their place again; what stands behind the tab is
# exactly what is in the file, so that it can be given to `edit` as it is.

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
        found = find_approved(workspace, path, "read", context)
        if found.kind == "folder":
            return _listing(workspace, found)
        if found.kind == "absent":
            raise Error(absent_words(workspace, found))
        with closing(workspace.open_read(path)) as descriptor, explained(path, workspace.path):
            if context.operands and identity_of(os.fstat(descriptor)) != found.identity:
                raise Error(f"{quoted(path)} changed while it was looked at; nothing was read")
            return _shown(descriptor, found.path, max(offset, 1), max(limit, 1), context)


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
    words = f"[{quoted(path)} is {kind_of(head)}, {counted(size, 'byte')}"
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


# --------------------------------------------------------------------------------------------------------------------
# `edit`: one text of a file in place of another, exactly.

LARGEST = 32 << 20
"""Bytes of a file that is edited: it is held in memory, old and new."""
_NAMED_LINES = 10


def edit(
    path: Annotated[str, "file, relative to the workspace"],
    old: Annotated[str, "text to replace, exactly as in the file, without line numbers"],
    new: Annotated[str, "text to put there"],
    context: Context,
    replace_all: Annotated[bool, "replace every occurrence"] = False,
) -> str:
    """Replace text in a file. `old` must occur exactly once, unless replace_all is true."""
    if not old:
        raise Error("old is empty: quote the text to replace, or use write for a whole file")
    if old == new:
        raise Error("old and new are the same: there is nothing to change")
    with Workspace.of(context) as workspace:
        found = workspace.find(path)
        if found.kind == "file" and found.size > LARGEST:  # Before anything is computed over its whole length.
            raise Error(f"{quoted(found.path)} has {found.size:,} bytes; files of up to {LARGEST:,} can be edited")
        found = find_approved(workspace, path, "write", context)
        content = content_to_edit(workspace, found)
        done = _substituted(content, old, new, found.path)
        if len(done.places) > 1 and not replace_all:
            raise Error(_ambiguous(done, found.path))
        if done.size > LARGEST:
            times = counted(len(done.places), "replacement")
            raise Error(f"{quoted(found.path)} would have {done.size:,} bytes after {times}; the limit is {LARGEST:,}")
        content = done.content()
        apply_changes(workspace, [Change(found, content)])
    return _edit_answer(content, done, found, new)


def content_to_edit(workspace: Workspace, found: Found, *, as_text: bool = True) -> bytes:
    """The content of a file that is to be changed in parts; refuses what is no text, unless it is not taken for one."""
    if found.kind == "absent":
        raise Error(absent_words(workspace, found))
    content = workspace.read_bytes(found.path, LARGEST)
    if hashlib.sha256(content).hexdigest() != found.digest:
        raise Error(f"{quoted(found.path)} changed while it was looked at; nothing was changed, call again")
    if as_text and is_binary(content[:8192]):
        raise Error(f"{quoted(found.path)} is no text; it can only be written as a whole")
    return content


def cannot_hold(path: str, encoding: Encoding, problem: UnicodeEncodeError) -> Error:
    """What to say of a text that the encoding of a file has no letters for."""
    letter = problem.object[problem.start]
    return Error(f"{quoted(path)} is {encoding.words}, which does not hold {letter!r}; nothing was changed")


def _substituted(content: bytes, old: str, new: str, path: str) -> Substitution:
    try:
        done = substitute(content, old, new)
    except UnicodeEncodeError as problem:
        raise cannot_hold(path, encoding_of(content), problem) from None
    if done is None:
        text = content.decode(encoding_of(content).name, "replace").replace("\r\n", "\n")
        raise Error(f"{quoted(path)} does not contain this text. {miss_words(text, old.replace(chr(13), ''), new)}")
    return done


def _ambiguous(done: Substitution, path: str) -> str:
    lines = [str(done.line_of(place)) for place in done.places[:_NAMED_LINES]]
    more = ", ..." if len(done.places) > len(lines) else ""
    return (
        f"{quoted(path)} contains this text {len(done.places)} times (lines {', '.join(lines)}{more}); nothing was "
        "changed. Quote more of the lines around the one you mean, or set replace_all"
    )


def _edit_answer(content: bytes, done: Substitution, found: Found, new: str) -> str:
    line = done.line_of(done.places[0])
    where = f"at line {line}" if len(done.places) == 1 else f"the first at line {line}"
    notes = [f"edited {quoted(found.path)}: {counted(len(done.places), 'replacement')}, {where}"]
    if done.crlf:
        notes.append("line ends were written as CR LF, as in the rest of the file")
    if done.encoding.name != "utf-8":
        notes.append(f"written as {done.encoding.words}, as the file was")
    notes += link_notes(found)
    text = content[len(done.encoding.mark) :].decode(done.encoding.name, "replace")
    shown = numbered(text.removesuffix("\n").split("\n"), line - 1, new.count("\n") + 1)
    return "\n".join(["; ".join(notes), shown])


def link_notes(found: Found) -> list[str]:
    """What is worth knowing where a file has several names."""
    notes = [f"over a link: the file is {quoted(found.real)}"] if found.path != found.real else []
    if found.kind == "file" and found.names > 1:
        notes.append(f"the file had {found.names} names (hard links); the other ones keep the old content")
    return notes


Edit = file_tool("edit", edit, "write")


# --------------------------------------------------------------------------------------------------------------------
# `write`: a whole file, exactly as it is given.

_SAMPLE = 256 * 1024


def write(
    path: Annotated[str, "file, relative to the workspace"],
    content: Annotated[str, "the whole text of the file"],
    context: Context,
) -> str:
    """Create a file or overwrite it. Missing folders are made. To change a part of a file, use edit."""
    with Workspace.of(context) as workspace:
        found = find_approved(workspace, path, "write", context)
        sample = _sample(workspace, found) if found.kind == "file" else b""
        # That of the old content where it began with a mark.
        encoding = marked(sample) or PLAIN
        try:
            data = encoding.encode(content)
        except UnicodeEncodeError:
            raise Error("the content has half a character (a lone surrogate) in it, which no file can hold") from None
        if encoding.mark and not data.startswith(encoding.mark):
            data = encoding.mark + data
        if found.kind == "file" and hashlib.sha256(data).hexdigest() == found.digest:
            return f"{quoted(found.path)} has exactly this content already; nothing was changed"
        apply_changes(workspace, [Change(found, data)])
    return _write_answer(found, content, data, encoding, sample)


def _sample(workspace: Workspace, found: Found) -> bytes:
    with closing(workspace.open_read(found.path)) as descriptor, explained(found.path, workspace.path):
        return os.read(descriptor, _SAMPLE)


def _write_answer(found: Found, content: str, data: bytes, encoding: Encoding, sample: bytes) -> str:
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    size = f"{counted(lines, 'line')}, {counted(len(data), 'byte')}"
    if found.kind == "absent":
        notes = [f"created {quoted(found.path)} ({size})"]
    else:
        notes = [f"overwrote {quoted(found.path)} (was {counted(found.size, 'byte')}; now {size})"]
    if encoding.mark:
        notes.append(f"written as {encoding.words}, as the file was")
    elif sample and not is_binary(sample) and encoding_of(sample[:-4]).name == "latin-1":
        notes.append("the old content was not UTF-8, the new one is")
    if sample and "\n" in content and line_end_of(sample, encoding) == "\r\n" and "\r\n" not in content:
        notes.append("the old lines ended in CR LF, the new ones end in LF")
    return "; ".join([*notes, *link_notes(found)])


Write = file_tool("write", write, "write")


# --------------------------------------------------------------------------------------------------------------------
# `glob`: the files whose paths match a pattern, in the order of their names.

MOST_PATHS = 1000
_MOST_CHARACTERS = 45_000


def glob(
    pattern: Annotated[str, "such as **/*.py or src/*.{js,ts}"],
    context: Context,
    path: Annotated[str, "folder to look in"] = ".",
) -> str:
    """Find files by the pattern of their path. Sorted by name; `*` alone lists a folder."""
    with Workspace.of(context) as workspace:
        base, rest = _split(workspace, pattern, path)
        found = find_approved(workspace, base, "read", context)
        if found.kind != "folder":
            absent = found.kind == "absent"
            raise Error(f"{quoted(found.path)}{': there is no such folder' if absent else ' is no folder'}")
        wanted = PathPattern(rest)
        walk = Walk(workspace, found.real, wanted=wanted.literals, deepest=wanted.deepest, cancelled=context.cancelled)
        return _glob_answer(_matching(walk, wanted, found.real), walk, pattern, found, wanted)


def _split(workspace: Workspace, pattern: str, path: str) -> tuple[str, str]:
    """The folder to begin in, and what is matched below it; an absolute path as a pattern says it all by itself."""
    if pattern.startswith("/"):
        pattern, path = workspace.relative(pattern), "."
    base, rest = split_base(pattern)
    start = workspace.relative(path)
    return start if base == "." else f"{start}/{base}", rest


def _matching(walk: Walk, wanted: PathPattern, base: str) -> list[str]:
    start = 0 if base == "." else len(base) + 1
    found: list[str] = []
    for entry in walk:
        # Folders are part of a listing; where any depth is searched, they are only in the way.
        if (not entry.is_folder or wanted.deepest is not None) and wanted.matches(entry.path[start:]):
            found.append(entry.path + "/" * entry.is_folder)
    return found


def _glob_answer(paths: list[str], walk: Walk, pattern: str, found: Found, wanted: PathPattern) -> str:
    lines = [quoted(path) for path in paths[:MOST_PATHS]]
    sizes = accumulate(len(line) + 1 for line in lines)
    lines = [line for line, size in zip(lines, sizes, strict=True) if size <= _MOST_CHARACTERS]
    notes = walk.notes(hint=not paths)
    if len(lines) < len(paths):
        notes.insert(0, f"{len(lines):,} of {len(paths):,} matches; use a narrower pattern or a path to see the others")
    if not paths:
        deeper = "; **/ at the beginning looks at any depth" if wanted.deepest is not None else ""
        notes.insert(0, f"nothing matches {quoted(pattern)} in {quoted(found.path)}{deeper}")
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def _inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
    pattern, path = arguments.get("pattern"), arguments.get("path", ".")
    if not isinstance(pattern, str) or not isinstance(path, str):
        return []
    with Workspace.of(context) as workspace:
        try:
            base, _ = _split(workspace, pattern, path)
        except OutsideError:
            base = pattern if pattern.startswith("/") else path
        except Error:
            base = path
        return operands_at(workspace, base, "read")


Glob = file_tool("glob", glob, "read", _inspect)
