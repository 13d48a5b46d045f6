"""`write`: a whole file, exactly as it is given."""

from __future__ import annotations

import hashlib
import os
from typing import Annotated

from dragoman.builtin.files.defining import file_tool
from dragoman.builtin.files.editing import link_notes
from dragoman.builtin.files.encodings import PLAIN, Encoding, encoding_of, is_binary, line_end_of
from dragoman.builtin.files.inspecting import ensure_approved, operands_of
from dragoman.builtin.files.replacing import Change, apply_changes
from dragoman.builtin.files.wording import counted, quoted, sized
from dragoman.builtin.files.workspace import Found, Workspace, explained
from dragoman.tools import Context, Error

_SAMPLE = 256 * 1024


def write(
    path: Annotated[str, "file, relative to the workspace"],
    content: Annotated[str, "the whole text of the file"],
    context: Context,
) -> str:
    """Create a file or overwrite it. Missing folders are made. To change a part of a file, use edit."""
    with Workspace.of(context) as workspace:
        found = workspace.find(path, digest=True)
        ensure_approved(context, operands_of(workspace, found, "write"))
        sample = _sample(workspace, found) if found.kind == "file" else b""
        encoding = _kept(sample)
        try:
            data = encoding.encode(content)
        except UnicodeEncodeError:
            raise Error("the content has half a character (a lone surrogate) in it, which no file can hold") from None
        if encoding.mark and not data.startswith(encoding.mark):
            data = encoding.mark + data
        if found.kind == "file" and hashlib.sha256(data).hexdigest() == found.digest:
            return f"{quoted(found.path)} has exactly this content already; nothing was changed"
        apply_changes(workspace, [Change(found, data)])
    return _answer(found, content, data, encoding, sample)


def _sample(workspace: Workspace, found: Found) -> bytes:
    descriptor = workspace.open_read(found.path)
    try:
        with explained(found.path, workspace.path):
            return os.read(descriptor, _SAMPLE)
    finally:
        os.close(descriptor)


def _kept(sample: bytes) -> Encoding:
    """The encoding for the new content: that of the old one where it began with a mark, else UTF-8."""
    encoding = encoding_of(sample)
    return encoding if encoding.mark else PLAIN


def _answer(found: Found, content: str, data: bytes, encoding: Encoding, sample: bytes) -> str:
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    size = f"{counted(lines, 'line')}, {sized(len(data))}"
    if found.kind == "absent":
        notes = [f"created {quoted(found.path)} ({size})"]
    else:
        notes = [f"overwrote {quoted(found.path)} (was {sized(found.size)}; now {size})"]
    if encoding.mark:
        notes.append(f"written as {encoding.words}, as the file was")
    elif sample and not is_binary(sample) and encoding_of(sample[:-4]).name == "latin-1":
        notes.append("the old content was not UTF-8, the new one is")
    if sample and "\n" in content and line_end_of(sample, encoding) == "\r\n" and "\r\n" not in content:
        notes.append("the old lines ended in CR LF, the new ones end in LF")
    return "; ".join([*notes, *link_notes(found)])


Write = file_tool("write", write, "write")
