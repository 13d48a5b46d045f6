"""From a row to the entries that the engine runs."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.formats.closers import ReadClosers
from dragoman.formats.entry import Entry
from dragoman.formats.jsonbody import JsonBody
from dragoman.formats.markers import Markers
from dragoman.formats.pairs import OpenValue, ReadPairs, ReadValue
from dragoman.formats.row import Format
from dragoman.formats.steps import (
    EndLine,
    Expect,
    ReadArguments,
    ReadEnvelopes,
    ReadMaybe,
    ReadSlot,
    ReadTagName,
    RequireBlank,
    SkipSpace,
    Step,
)
from dragoman.formats.template import (
    Hole,
    Literal,
    Many,
    Maybe,
    Node,
    Space,
    TemplateError,
    compile_template,
    first_kinds,
    first_literals,
    literals_after,
)
from dragoman.formats.walker import TemplateEntry
from dragoman.formats.wholepair import WholePair


def compile_entries(row: Format, *, named: bool) -> tuple[Entry, ...]:
    """All ways into the calls of a format: its template, its other spellings, its own readers."""
    sources = (row.template, *row.also) if row.template else row.also
    compiled = (compile_entry(row, source) for source in sources)
    return (*compiled, *row.entries, *(row.named_entries if named else ()))


def compile_entry(row: Format, source: str) -> TemplateEntry:
    nodes = compile_template(source, row.spellings)
    if not nodes or not isinstance(nodes[0], Literal):
        raise TemplateError(f"the template of {row.name!r} does not begin with a literal")
    payload = next((index for index, node in enumerate(nodes) if _is_payload(node)), None)
    if payload is None:
        raise TemplateError(f"the template of {row.name!r} has no place for arguments")
    openers = nodes[0].spellings
    compiler = _Compiler(row, openers, nodes[payload + 1 :])
    steps: list[Step] = []
    for index, node in enumerate(nodes[: payload + 1]):
        if index and _closes_tag(nodes[index - 1], node):
            steps[-1] = ReadTagName()
        else:
            steps.extend(compiler.compile(node, nodes[index + 1 :]))
        if index == 0 and (row.own_lines or row.opens_line):
            steps.append(EndLine())
    steps.extend(compiler.closers(required=isinstance(nodes[payload], Many)))
    return TemplateEntry(
        row.name,
        openers,
        tuple(steps),
        place=row.place,
        section=row.section,
        source=source,
        stops=compiler.body.stops,
        follows=first_kinds(nodes[1:]),
    )


def _closes_tag(before: Node, node: Node) -> bool:
    return before == Hole("name") and isinstance(node, Literal) and node.text == ">"


def _is_payload(node: Node) -> bool:
    return isinstance(node, Many) or (isinstance(node, Hole) and node.kind in ("args", "call", "calls"))


def _all_spellings(closing: tuple[tuple[Literal, bool], ...]) -> tuple[str, ...]:
    return tuple(spelling for literal, _ in closing for spelling in literal.spellings)


def _section_end(row: Format, spellings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if row.section is None or not row.section[1]:
        return ()
    end = row.section[1].strip()
    return (end, *spellings.get(end, ()))


class _Compiler:
    def __init__(self, row: Format, openers: tuple[str, ...], tail: tuple[Node, ...]) -> None:
        self.row = row
        self.openers = openers
        self.closing = literals_after(tail)
        ends = (*_all_spellings(self.closing), *_section_end(row, row.spellings))
        self.ends = Markers(ends) if ends else None
        stops = tuple("\n" + end if row.place == "line" and end in ("```", "~~~") else end for end in ends)
        self.body = JsonBody(
            stops=Markers((*stops, *openers)), name_is_key=row.name_is_key, bare=row.bare, strict=row.strict_envelope
        )

    def compile(self, node: Node, rest: tuple[Node, ...]) -> list[Step]:
        if isinstance(node, Literal):
            return [Expect(node.text, Markers(node.spellings))]
        if isinstance(node, Space):
            before_name = rest and isinstance(rest[0], Hole) and rest[0].kind == "name"
            return [RequireBlank() if before_name and "\n" not in node.text else SkipSpace()]
        if isinstance(node, Maybe):
            return [ReadMaybe(Markers(first_literals(node.body)), self._sequence(node.body, rest))]
        if isinstance(node, Many):
            return [self._pairs(node)]
        if node.kind == "args":
            return [ReadArguments(self.body, self.ends)]
        if node.kind in ("call", "calls"):
            either = node.kind == "call" and not self.row.strict_envelope
            return [ReadEnvelopes(self.body, "{[" if either else "{" if node.kind == "call" else "[")]
        return [ReadSlot(node.kind, Markers(self._stops(rest)))]

    def _sequence(self, nodes: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Step, ...]:
        return tuple(
            step for index, node in enumerate(nodes) for step in self.compile(node, (*nodes[index + 1 :], *after))
        )

    def _stops(self, rest: tuple[Node, ...]) -> tuple[str, ...]:
        stops = first_literals(rest)
        if not stops:
            raise TemplateError(f"a hole in the template of {self.row.name!r} has no end")
        return stops

    def _pairs(self, node: Many) -> ReadPairs:
        first = Markers(first_literals(node.body))
        if self.ends is None:
            raise TemplateError(f"the arguments in the template of {self.row.name!r} have no end")
        landmarks = Markers((*first, *self.ends, *self.openers))
        whole = WholePair(node.body, first, self.ends)
        return ReadPairs(tuple(self._body(node.body, first, self.ends)), whole, first, self.ends, landmarks)

    def _body(self, nodes: tuple[Node, ...], first: Markers, ends: Markers) -> list[Step]:
        steps: list[Step] = []
        index = 0
        while index < len(nodes):
            node = nodes[index]
            if isinstance(node, Hole) and node.kind == "value":
                lead = nodes[index - 1]
                step, used = self._value(nodes[index + 1 :], lead.text if isinstance(lead, Space) else "", first, ends)
                if steps and isinstance(lead, Space):
                    steps.pop()  # white space next to a value is exact, and read with it
                elif isinstance(lead, Literal) and index >= 2 and not isinstance(nodes[index - 2], Hole):
                    steps[-1] = OpenValue(Markers(lead.spellings), Markers((*first, *ends)))
                steps.append(step)
                index += used
            else:
                steps.extend(self.compile(node, nodes[index + 1 :]))
            index += 1
        if isinstance(nodes[-1], Space):
            steps.pop()  # what follows is looked for behind white space anyway
        return steps

    def _value(self, rest: tuple[Node, ...], lead: str, first: Markers, ends: Markers) -> tuple[ReadValue, int]:
        trail = ""
        used = 0
        if rest and isinstance(rest[0], Space):
            trail = rest[0].text
            used = 1
        if len(rest) <= used or not isinstance(rest[used], Literal):
            raise TemplateError(f"a value in the template of {self.row.name!r} has no closer")
        closer = rest[used]
        assert isinstance(closer, Literal)
        step = ReadValue(
            lead,
            closer.spellings,
            trail,
            first=first,
            exits=ends,
            openers=self.openers,
            cdata=self.row.cdata,
            unique=self.row.unique_keys,
            untyped_is_text=self.row.untyped_is_text,
        )
        return step, used + 1

    def closers(self, *, required: bool) -> list[Step]:
        if not self.closing:
            return []
        tags = any(literal.text.startswith("</") for literal, _ in self.closing)
        groups = tuple((Markers(literal.spellings), optional) for literal, optional in self.closing)
        return [ReadClosers(groups, required=required, own_line=self.row.own_lines, tags=tags)]
