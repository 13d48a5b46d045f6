"""`apply_patch`: changes to several files at once, all of them or none."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from dragoman.builtin.files.defining import file_tool
from dragoman.builtin.files.editing import content_to_edit, link_notes
from dragoman.builtin.files.encodings import PLAIN, Encoding, encoding_of
from dragoman.builtin.files.inspecting import ensure_approved, operands_at, operands_of
from dragoman.builtin.files.likeness import absent_words
from dragoman.builtin.files.patch_fitting import Misfit, apply_hunks
from dragoman.builtin.files.patch_marked import BEGIN, HEADINGS, read_marked
from dragoman.builtin.files.patch_sections import Section
from dragoman.builtin.files.patch_unified import read_unified
from dragoman.builtin.files.replacing import Change, apply_changes
from dragoman.builtin.files.wording import counted, quoted
from dragoman.builtin.files.workspace import Found, Workspace
from dragoman.tools import Context, Error, ToolContext
from dragoman.types import JsonObject, Operand

MOST_FILES = 200


def apply_patch(patch: Annotated[str, "unified diff, or *** Begin Patch ... *** End Patch"], context: Context) -> str:
    """Change, add, delete or rename files by a patch. Either all of it is applied or nothing."""
    sections = read_patch(patch)
    with Workspace.of(context) as workspace:
        drafts = _Drafts(workspace)
        for path in _paths(sections):
            drafts.look(path)
        ensure_approved(context, [each for found in drafts.found for each in operands_of(workspace, found, "write")])
        told = [drafts.take(section) for section in sections]
        changes = drafts.changes()
        if not changes:
            return "the patch changes nothing: every file is already as it says"
        apply_changes(workspace, changes)
    return "\n".join(told)


def read_patch(patch: str) -> list[Section]:
    """What a patch says, in either form; an error where it says nothing."""
    lines = patch.split("\n")
    if lines and all(line.endswith("\r") for line in lines[:-1]) and len(lines) > 1:
        lines = [line.removesuffix("\r") for line in lines]  # The patch came with such line ends; its files may not.
    is_marked = any(line.startswith((BEGIN, *HEADINGS)) for line in lines)
    sections = read_marked(lines) if is_marked else read_unified(lines)
    if not sections:
        raise Error("this is no patch: give a unified diff (--- PATH, +++ PATH, @@ ...), or *** Begin Patch")
    if len(sections) > MOST_FILES:
        raise Error(f"the patch has more than {MOST_FILES} sections; apply it in parts")
    return sections


def _paths(sections: list[Section]) -> list[str]:
    """Every path of a patch, once."""
    return list(dict.fromkeys(path for section in sections for path in section.paths))


class _Draft(Struct):
    """A file as it is, and as it is to be."""

    found: Found
    old: bytes | None = None
    """None where there is nothing, or nothing has been read yet."""
    new: bytes | None = None
    exists: bool = False
    mode: int | None = None
    is_read: bool = False


class _Drafts:
    """All files of a patch, changed in memory only: one section may go on where another one ended."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._by_path: dict[str, Found] = {}
        self._by_place: dict[str, _Draft] = {}

    @property
    def found(self) -> list[Found]:
        return list(self._by_path.values())

    def look(self, path: str) -> None:
        found = self._workspace.find(path, digest=True)
        self._by_path[path] = found
        self._by_place.setdefault(found.real, _Draft(found, exists=found.kind != "absent"))

    def changes(self) -> list[Change]:
        return [
            Change(draft.found, draft.new if draft.exists else None, draft.mode)
            for draft in self._by_place.values()
            if draft.exists != (draft.found.kind != "absent")
            or (draft.is_read and (draft.new != draft.old or draft.mode is not None))
        ]

    def take(self, section: Section) -> str:
        """Carry out one section; says what it does."""
        if section.action == "add":
            return self._add(section)
        draft = self._existing(section)
        if section.action == "delete":
            return self._delete(section, draft)
        content, notes = draft.new, list[str]()
        if section.hunks:
            assert content is not None
            content, notes = patched(content, section, section.path)
        target = draft
        if section.target:
            target = self._absent(section.target)
            target.mode = draft.found.mode or None
            draft.exists = section.action == "copy"
        target.new, target.exists, target.is_read = content, True, True
        target.mode = section.mode if section.mode is not None else target.mode
        return _line(section, [*notes, *link_notes(draft.found)])

    def _add(self, section: Section) -> str:
        draft = self._absent(section.path)
        text = "".join(line for hunk in section.hunks for line in hunk.new)
        if any(sign != "+" for hunk in section.hunks for sign, _ in hunk.lines):
            raise Error(f"{quoted(section.path)} is to be a new file, but its lines do not all begin with +")
        draft.new, draft.exists, draft.is_read = _encoded(text, PLAIN, section.path), True, True
        draft.mode = section.mode
        return _line(section, [])

    def _delete(self, section: Section, draft: _Draft) -> str:
        notes: list[str] = []
        if section.hunks:
            assert draft.new is not None
            rest, notes = patched(draft.new, section, section.path)
            if rest:
                raise Error(
                    f"{quoted(section.path)} is to be deleted, but has more in it than the patch; nothing was changed"
                )
        draft.exists = False
        return _line(section, notes)

    def _existing(self, section: Section) -> _Draft:
        draft = self._by_place[self._by_path[section.path].real]
        if not draft.exists:
            words = absent_words(self._workspace, draft.found)
            raise Error(f"{words if draft.found.kind == 'absent' else quoted(section.path) + ' is gone by then'}")
        # What only goes, or only gets another name, may be anything.
        if not draft.is_read and (section.hunks or section.action != "delete"):
            draft.old = draft.new = content_to_edit(self._workspace, draft.found, as_text=bool(section.hunks))
            draft.is_read = True
        return draft

    def _absent(self, path: str) -> _Draft:
        draft = self._by_place[self._by_path[path].real]
        if draft.exists:
            raise Error(f"{quoted(path)} is there already; nothing was changed. Update it, or delete it first")
        return draft


def patched(content: bytes, section: Section, path: str) -> tuple[bytes, list[str]]:
    """The content with the hunks of a section applied, in the encoding that it had."""
    encoding = encoding_of(content)
    readings = [(encoding, "strict")]
    if encoding.name == "latin-1":
        # Not UTF-8 throughout: the lines of the patch may still be.
        readings.append((PLAIN, "surrogateescape"))
    problem: Misfit | None = None
    possible: list[tuple[bytes, list[str]]] = []
    for reading, errors in readings:
        try:
            text = content[len(reading.mark) :].decode(reading.name, errors)
        except UnicodeDecodeError:
            raise Error(f"{quoted(path)} is no sound {encoding.words}; it can only be written as a whole") from None
        try:
            changed, notes = apply_hunks(text, section.hunks)
        except Misfit as misfit:
            problem = problem or misfit
            continue
        is_exact = not any(note.startswith("hunk ") for note in notes)
        if reading.name != "utf-8":
            notes.append(f"written as {reading.words}, as the file was")
        possible.append((reading.mark + _encoded(changed, reading, path, errors), notes))
        if is_exact:
            return possible[-1]
    if possible:
        return possible[0]
    raise Error(f"{quoted(path)}: {problem.reason if problem else ''}\nNothing was changed.")


def _encoded(text: str, encoding: Encoding, path: str, errors: str = "strict") -> bytes:
    try:
        return text.encode(encoding.name, errors)
    except UnicodeEncodeError as problem:
        letter = problem.object[problem.start]
        raise Error(
            f"{quoted(path)} is {encoding.words}, which does not hold {letter!r}; nothing was changed"
        ) from None


def _line(section: Section, notes: list[str]) -> str:
    added = sum(sign == "+" for hunk in section.hunks for sign, _ in hunk.lines)
    removed = sum(sign == "-" for hunk in section.hunks for sign, _ in hunk.lines)
    verb = {"add": "added", "delete": "deleted", "update": "updated", "copy": "copied"}[section.action]
    if section.action == "update" and section.target:
        verb = "renamed"
    named = quoted(section.path) + (f" to {quoted(section.target)}" if section.target else "")
    size = f" ({counted(added, 'line')} added, {removed:,} removed)" if added or removed else ""
    return "; ".join([f"{verb} {named}{size}", *notes])


def _inspect(arguments: JsonObject, context: ToolContext) -> list[Operand]:
    patch = arguments.get("patch")
    if not isinstance(patch, str):
        return []
    try:
        sections = read_patch(patch)
    except Error:  # Nothing of it can be applied, and running it says why.
        return []
    with Workspace.of(context) as workspace:
        return [each for path in _paths(sections) for each in operands_at(workspace, path, "write")]


ApplyPatch = file_tool("apply_patch", apply_patch, "write", _inspect)
