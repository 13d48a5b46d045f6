"""`edit`: one text of a file in place of another, exactly."""

from __future__ import annotations

import hashlib
from typing import Annotated

from dragoman.builtin.files.defining import file_tool
from dragoman.builtin.files.encodings import encoding_of, is_binary
from dragoman.builtin.files.inspecting import ensure_approved, operands_of
from dragoman.builtin.files.likeness import absent_words, miss_words, numbered
from dragoman.builtin.files.replacing import Change, apply_changes
from dragoman.builtin.files.substituting import Substitution, substitute
from dragoman.builtin.files.wording import counted, quoted
from dragoman.builtin.files.workspace import Found, Workspace
from dragoman.tools import Context, Error

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
        _ensure_small(workspace.find(path))
        found = workspace.find(path, digest=True)
        ensure_approved(context, operands_of(workspace, found, "write"))
        content = content_to_edit(workspace, found)
        done = _substituted(content, old, new, found.path)
        if len(done.places) > 1 and not replace_all:
            raise Error(_ambiguous(content, done, found.path))
        apply_changes(workspace, [Change(found, done.content)])
    return _answer(content, done, found, new)


def _ensure_small(found: Found) -> None:
    """Before anything is computed over its whole length."""
    if found.kind == "file" and found.size > LARGEST:
        raise Error(f"{quoted(found.path)} has {found.size:,} bytes; files of up to {LARGEST:,} can be edited")


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


def _substituted(content: bytes, old: str, new: str, path: str) -> Substitution:
    try:
        done = substitute(content, old, new)
    except UnicodeEncodeError as problem:
        letter = problem.object[problem.start]
        raise Error(
            f"{quoted(path)} is {encoding_of(content).words}, which does not hold {letter!r}; nothing was changed"
        ) from None
    if done is None:
        text = content.decode(encoding_of(content).name, "replace").replace("\r\n", "\n")
        raise Error(f"{quoted(path)} does not contain this text. {miss_words(text, old.replace(chr(13), ''), new)}")
    return done


def _ambiguous(content: bytes, done: Substitution, path: str) -> str:
    lines = [str(done.line_of(content, place)) for place in done.places[:_NAMED_LINES]]
    more = ", ..." if len(done.places) > len(lines) else ""
    return (
        f"{quoted(path)} contains this text {len(done.places)} times (lines {', '.join(lines)}{more}); nothing was "
        "changed. Quote more of the lines around the one you mean, or set replace_all"
    )


def _answer(content: bytes, done: Substitution, found: Found, new: str) -> str:
    line = done.line_of(content, done.places[0])
    where = f"at line {line}" if len(done.places) == 1 else f"the first at line {line}"
    notes = [f"edited {quoted(found.path)}: {counted(len(done.places), 'replacement')}, {where}"]
    if done.crlf:
        notes.append("line ends were written as CR LF, as in the rest of the file")
    if done.encoding.name != "utf-8":
        notes.append(f"written as {done.encoding.words}, as the file was")
    notes += link_notes(found)
    text = done.content[len(done.encoding.mark) :].decode(done.encoding.name, "replace")
    shown = numbered(text.removesuffix("\n").split("\n"), line - 1, new.count("\n") + 1)
    return "\n".join(["; ".join(notes), shown])


def link_notes(found: Found) -> list[str]:
    """What is worth knowing where a file has several names."""
    notes = [f"over a link: the file is {quoted(found.real)}"] if found.path != found.real else []
    if found.kind == "file" and found.names > 1:
        notes.append(f"the file had {found.names} names (hard links); the other ones keep the old content")
    return notes


Edit = file_tool("edit", edit, "write")
