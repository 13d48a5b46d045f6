"""The grammar of calls: the template of a format, its holes filled from the tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dragoman.args.coercion import read_text
from dragoman.errors import CannotExpress, ConfigError
from dragoman.formats.grammars.nodes import (
    DIGIT,
    EMPTY,
    JSON,
    NEVER,
    FreeText,
    Limits,
    Loss,
    Node,
    Notation,
    Rules,
    Text,
    chars,
    choice,
    gemma,
    json_between,
    maybe,
    plain_between,
    python,
    repeat,
    row,
)
from dragoman.formats.grammars.values import LITERAL, Branch, Branches, Member, Place, SchemaCache, Values, members_of
from dragoman.formats.notation import closers_of, write_strict_json
from dragoman.formats.plan import Plan
from dragoman.formats.renderer import difference, json_type, render, type_word
from dragoman.formats.template import (
    Format,
    Hole,
    Literal,
    Many,
    Maybe,
    Space,
    compile_template,
    first_literals,
    has_hole,
    literals_after,
)
from dragoman.formats.template import Node as TemplateNode
from dragoman.types import JsonObject, Tool, ToolCall

# --------------------------------------------------------------------------------------------------------------------
# All texts of calls, from the template of a format and the tools.

_is_keyword = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}\Z").match
_is_plain_key = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z").match
_IDENTITY = repeat(chars("azAZ09__--"), 1, 40)
_FREE_KEY = row(chars("azAZ__"), repeat(chars("azAZ09__"), 0, 40))


def has_grammar(row: Format) -> bool:
    """Whether a grammar can be built from the row: it needs a template."""
    return bool(row.template) and row.notation in ("json", "python", "gemma") and not row.entities


def _notation_of(row: Format) -> Notation:
    """Return the notation in which a grammar writes the values of a row."""
    if row.notation == "python":
        return python(closers_of(row))
    return gemma(row.quote, closers_of(row)) if row.notation == "gemma" else JSON


class CallWriter:
    """Writes the calls of some tools in one format."""

    def __init__(self, row: Format, plan: Plan, rules: Rules, limits: Limits) -> None:
        if not has_grammar(row):
            raise ConfigError(
                f"there is no grammar for the format {row.name!r}",
                hint="use one that writes JSON or tags, for example hermes, fenced or qwen3_coder",
            )
        self.row = row
        self.notation = _notation_of(row)
        self.plan = plan
        self.rules = rules
        self.limits = limits
        self.losses: dict[Loss, None] = {}
        self.nodes = compile_template(row.template, row.spellings)
        self.markers = value_markers(row)
        self.memory = SchemaCache(self.losses)

    def calls(self, tools: Iterable[Tool]) -> Node:
        """Return the grammar of one or more calls, up to the limit."""
        offered = [tool for tool in tools if self._can_name(tool)]
        several = max(1, self.limits.calls) - 1
        if has_hole(self.nodes, "calls"):
            one = self.rules.define("call", choice(self._one(tool, None) for tool in offered))
            listed = self._listed(one, several)
            body = row(*(listed if _is_hole(node, "calls") else self._fixed(node) for node in self.nodes))
        else:
            one = self.rules.define("call", choice(self._one(tool, self.nodes) for tool in offered))
            body = row(one, repeat(row(Text(self.row.separator), one), 0, several))
        opening, closing = self.row.section or ("", "")
        return row(Text(opening), body, Text(closing))

    def _listed(self, one: Node, more: int) -> Node:
        """Return the grammar of `{calls}`."""
        bare = self.row.single_is_bare
        listed = row(Text("["), one, repeat(row(Text(", "), one), 1 if bare else 0, more), Text("]"))
        return listed if not bare else choice([one, listed] if more else [one])

    def _one(self, tool: Tool, nodes: Sequence[TemplateNode] | None) -> Node:
        return self.rules.define(f"tool-{tool.name}", _ToolWriter(self, tool).write(nodes))

    def _can_name(self, tool: Tool) -> bool:
        refusal = self.refusal(tool, {})
        if refusal is not None:
            self.losses[Loss(tool.name, "$", "name", f"the tool is left out: {refusal}")] = None
        return refusal is None

    def refusal(self, tool: Tool, arguments: JsonObject) -> CannotExpress | None:
        """Return why the format cannot write a call of the tool; None if it can."""
        try:
            render([ToolCall("", tool.name, arguments)], self.row, self.plan)
        except CannotExpress as refusal:
            return refusal
        return None

    def _fixed(self, node: TemplateNode) -> Node:
        if isinstance(node, Literal | Space):
            return Text(node.text)
        return row(*map(self._fixed, node.body)) if isinstance(node, Maybe) else EMPTY


def _is_hole(node: TemplateNode, kind: str) -> bool:
    return isinstance(node, Hole) and node.kind == kind


def value_markers(row: Format) -> tuple[str, ...]:
    """Return what a value between tags must not contain: its closer, the next argument's tag, the ends of the call."""
    nodes = compile_template(row.template, row.spellings)
    for index, node in enumerate(nodes):
        if isinstance(node, Many):
            value = next(place for place, inner in enumerate(node.body) if _is_hole(inner, "value"))
            after = node.body[value + 1 :]
            # If no tag follows a value, the blank after it ends it, as in lines of keys and values.
            blanks = tuple((inner.text,) for inner in after if isinstance(inner, Space))
            closers = next(iter((*(inner.spellings for inner in after if isinstance(inner, Literal)), *blanks)))
            ends = [text for literal, _ in literals_after(nodes[index + 1 :]) for text in literal.spellings]
            return tuple(dict.fromkeys((*closers, *first_literals(node.body), *ends, *row.section_ends)))
    return ()


class _ToolWriter:
    """Fills the holes of the template for one tool."""

    def __init__(self, owner: CallWriter, tool: Tool) -> None:
        self.row = owner.row
        self.owner = owner
        self.tool = tool
        self.branches = Branches(tool.parameters, self.report)
        self.place = Place("$", owner.limits.depth)

    def report(self, path: str, keyword: str, why: str) -> None:
        self.owner.losses[Loss(self.tool.name, path, keyword, why)] = None

    def values(self, notation: Notation) -> Values:
        return Values(self.branches, self.owner.rules, self.owner.limits, notation, self.owner.memory)

    def write(self, nodes: Sequence[TemplateNode] | None) -> Node:
        try:
            written = self._call() if nodes is None else row(*map(self._node, nodes))
        except RecursionError:
            self.report("$", "parameters", "nested too deeply; the tool is left out")
            return NEVER
        if written == NEVER:
            self.report("$", "parameters", "no arguments can be written; the tool is left out")
        return written

    def _node(self, node: TemplateNode) -> Node:
        if isinstance(node, Literal | Space):
            return Text(node.text)
        if isinstance(node, Maybe):
            body = row(*map(self._node, node.body))
            return maybe(body) if has_hole(node.body, "id") else body
        if isinstance(node, Many):
            return _PairWriter(self, node).write()
        if node.kind == "name":
            return Text(self.tool.name)
        if node.kind == "id":
            return self._identity()
        return self._arguments() if node.kind == "args" else self._call()

    def _identity(self) -> Node:
        if has_hole(self.owner.nodes, "name"):
            return repeat(chars("azAZ09__--"), 0, 40)
        return row(maybe(Text("functions.")), Text(f"{self.tool.name}:"), repeat(DIGIT, 1, 4))

    def _call(self) -> Node:
        """Return the name and the arguments: as an envelope, or as a call in Python."""
        if self.row.notation == "python":
            return row(Text(f"{self.tool.name}("), self._arguments(), Text(")"))
        name = write_strict_json(self.tool.name)
        if self.row.name_is_key:
            return row(Text(f"{{{name}: "), self._arguments(), Text("}"))
        name_key, arguments_key = map(write_strict_json, self.row.keys)
        start: Node = Text("{")
        if self.row.id_key:
            start = row(Text(f"{{{write_strict_json(self.row.id_key)}: "), Text('"'), _IDENTITY, Text('", '))
        return row(start, Text(f"{name_key}: {name}, {arguments_key}: "), self._arguments(), Text("}"))

    def _arguments(self) -> Node:
        values = self.values(self.owner.notation)
        found = objects(self.branches, self.tool, self.place)
        if self.row.notation == "python":
            return choice(self._keywords(values, branch, place) for branch, place in found)
        if self.owner.notation.bare_keys:
            self._warn_of_bare_words(found)
        return choice(values.branch(branch, place) for branch, place in found)

    def _warn_of_bare_words(self, found: list[tuple[Branch, Place]]) -> None:
        """Report a loss if only delimiters mark strings: the reader takes a bare word for a string if it may be one."""
        for branch, place in found:
            for member in members_of(branch.schema, place) or ():
                kinds = {
                    json_type(each.value) if each.kind == LITERAL else each.kind
                    for each, _ in self.branches.of(member.schema, member.place)
                }
                if "string" in kinds and kinds & {"integer", "number", "boolean"}:
                    self.report(member.place.path, "type", "a bare number or boolean is read as text")

    def _keywords(self, values: Values, branch: Branch, place: Place) -> Node:
        """Return `key=value, other=value`."""
        members = literal_members(branch, place) if branch.kind == LITERAL else members_of(branch.schema, place)
        if members is None:
            self.report(place.path, "properties", "none are named: only calls without arguments are offered")
        pairs = [(self._keyword(values, member), member.required) for member in members or ()]
        return values.listed(pairs)

    def _keyword(self, values: Values, member: Member) -> Node:
        if _is_keyword(member.key) is None:
            self.report(member.place.path, "properties", "the key is not a Python identifier")
            return NEVER
        return row(Text(f"{member.key}="), values.value(member.schema, member.place))


def objects(branches: Branches, tool: Tool, place: Place) -> list[tuple[Branch, Place]]:
    """Return the branches of a tool's parameters that are objects; arguments are always objects."""
    found = branches.of(tool.parameters, place)
    return [(branch, at) for branch, at in found if branch.kind == "object" or isinstance(branch.value, dict)]


def literal_members(branch: Branch, place: Place) -> list[Member]:
    """Return the members of an object that is a constant."""
    return [Member(key, {"const": each}, True, place.child(key)) for key, each in branch.value.items()]


class _PairWriter:
    """Writes arguments as tags around keys and values."""

    def __init__(self, owner: _ToolWriter, node: Many) -> None:
        self.owner = owner
        self.row = owner.row
        self.body = node.body
        self.typed = has_hole(node.body, "type")
        markers = owner.owner.markers
        self.markers = markers
        self.inner = owner.values(json_between(markers))
        self.plain = owner.values(plain_between(markers))

    def write(self) -> Node:
        tool = self.owner
        found = objects(tool.branches, tool.tool, tool.place)
        return choice(self._object(branch, place) for branch, place in found)

    def _object(self, branch: Branch, place: Place) -> Node:
        if branch.kind == LITERAL:
            return row(*map(self._member, literal_members(branch, place)))
        members = members_of(branch.schema, place)
        if members is None:
            return self._free(branch, place)
        return row(*(self._member(each) if each.required else maybe(self._member(each)) for each in members))

    def _free(self, branch: Branch, place: Place) -> Node:
        self.owner.report(place.path, "properties", "none are named: keys are free and may repeat")
        pair = self._pair(_FREE_KEY, branch.schema.get("additionalProperties", True), place.child("*"))
        return repeat(self.owner.owner.rules.define("pair", pair), 0, self.owner.owner.limits.items)

    def _member(self, member: Member) -> Node:
        if not _is_plain_key(member.key) and self.owner.owner.refusal(self.owner.tool, {member.key: "x"}):
            self.owner.report(member.place.path, "properties", "the key cannot be written in this format")
            return NEVER
        return self._pair(Text(member.key), member.schema, member.place)

    def _pair(self, key: Node, schema: object, place: Place) -> Node:
        kinds: dict[str, list[Node]] = {}
        for word, node in self.owner.owner.memory.recall("pair", schema, lambda: self._by_word(schema, place)):
            kinds.setdefault(word if self.typed else "", []).append(node)
        return choice(
            row(*(self._fill(node, key, word, choice(ways)) for node in self.body)) for word, ways in kinds.items()
        )

    def _fill(self, node: TemplateNode, key: Node, word: str, value: Node) -> Node:
        if isinstance(node, Literal | Space):
            return Text(node.text)
        if isinstance(node, Hole):
            return {"key": key, "value": value}.get(node.kind, Text(word))
        return row(*(self._fill(inner, key, word, value) for inner in node.body))

    # ---- values --------------------------------------------------------------------------------------------------

    def _by_word(self, schema: object, place: Place) -> list[tuple[str, Node]]:
        """Return the values of a schema, each with the word that states its type."""
        branches = self.owner.branches.of(schema, place)
        if not self.typed and any(_is_any_text(branch) for branch, _ in branches):
            # Other allowed values are text as well, and the reader gets their type from the schema.
            branches = [(branch, at) for branch, at in branches if _is_any_text(branch)][:1]
        return [pair for branch, at in branches for pair in self._values(branch, at, schema)]

    def _values(self, branch: Branch, place: Place, schema: object) -> list[tuple[str, Node]]:
        if branch.kind == LITERAL:
            return [(type_word(self.row, json_type(branch.value)), self._literal(branch, place, schema))]
        if branch.kind == "string":
            return [(type_word(self.row, "string"), self._cell(self.plain.string(branch.schema, place)))]
        if branch.kind == "number":
            whole, fraction = self.inner.scalars("number", branch.schema)
            return [(type_word(self.row, "integer"), whole), (type_word(self.row, "number"), fraction)]
        return [(type_word(self.row, branch.kind), self.inner.branch(branch, place))]

    def _literal(self, branch: Branch, place: Place, schema: object) -> Node:
        """Return a constant. The reader must read the same value, which plain text does not guarantee."""
        is_text = isinstance(branch.value, str)
        found = (self.plain if is_text else self.inner).literal(branch, place)
        if isinstance(found, Text) and isinstance(schema, dict):
            read = read_text(found.text, schema, root=self.owner.tool.parameters)
            if difference(branch.value, read.value) is not None:
                self.owner.report(place.path, "enum", f"{branch.value!r} would be read as another value")
                return NEVER
        if is_text and isinstance(found, Text) and self.row.cdata:
            return Text(self.row.wrap_text(found.text))
        return found

    def _cell(self, node: Node) -> Node:
        """Return a string; in formats with CDATA, one with a bracket or with blanks at its ends may be in CDATA."""
        if not self.row.cdata:
            return node
        text = self.owner.owner.rules.named[node.name] if hasattr(node, "name") else node
        if not isinstance(text, FreeText):
            return node
        wrapped = FreeText((*text.markers, "]]>"), text.least, text.most, text.exact)
        bare = FreeText((), text.least, text.most, text.exact, barred="\0<")
        return self.owner.owner.rules.define("cell", choice([bare, row(Text("<![CDATA["), wrapped, Text("]]>"))]))


def _is_any_text(branch: Branch) -> bool:
    return branch.kind == "string" and branch.schema.keys().isdisjoint(("minLength", "maxLength", "format", "pattern"))
