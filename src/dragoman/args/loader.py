"""`load` and `validate`: from the arguments that a model wrote to arguments that the tool accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import Any

from msgspec import Struct

from dragoman.args.coercion import coerce
from dragoman.args.decoder import Undecodable, decode, find_unsound
from dragoman.args.tolerant import repair
from dragoman.errors import nearest
from dragoman.jsonschema.dialect import BASE, normalise
from dragoman.jsonschema.effort import MOST_VISITS, Effort, measure
from dragoman.jsonschema.fit import MOST_EXACT, fits, fits_plainly, shape_of
from dragoman.jsonschema.keywords import KIND_OF_TYPE, child_path
from dragoman.jsonschema.patterns import MOST_ATTEMPTS
from dragoman.jsonschema.references import refuse_to_fetch
from dragoman.toolset import as_tool
from dragoman.types import Change, Fault, JsonObject, Tool

# --------------------------------------------------------------------------------------------------------------------
# Messages for faults, short enough for a model to read and act on.

_LONGEST_VALUE = 60
_LONGEST_MESSAGE = 200
_SHOWN_CHOICES = 20
_SHOWN_NAMES = 100


def show(value: Any) -> str:
    """Return a value for a message: scalars shortened and quoted, structures by their kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return repr(value[: _LONGEST_VALUE - 3] + "...")
    return repr(value)


def join_words(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def describe(error: Any, schema: dict[str, Any]) -> list[str]:
    """Return the messages for one error of the validator; several if the error has several causes."""
    kind = error.kind
    if kind.name == "additionalProperties":
        known = [name for name in schema.get("properties", {}) if name not in error.instance]
        return [_describe_unexpected(name, known) for name in kind.unexpected[:_SHOWN_NAMES]]
    if kind.name == "pattern":  # The value of its kind may be a message of the engine.
        return [_shorten(f"does not match the pattern {schema.get('pattern')}")]
    words = _WORDS.get(kind.name)
    return [words(kind.value, error.instance) if words is not None else _shorten(error.message)]


def _describe_unexpected(name: str, known: list[str]) -> str:
    guess = nearest(name, known) if len(name) <= _LONGEST_VALUE else None
    return f"unexpected {show(name)}" + (f", did you mean {guess!r}?" if guess else "")


def _describe_choices(choices: Sequence[Any], _: Any) -> str:
    shown = ", ".join(map(show, choices[:_SHOWN_CHOICES]))
    return f"not one of {shown}" + (", ..." if len(choices) > _SHOWN_CHOICES else "")


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


_WORDS: dict[str, Callable[[Any, Any], str]] = {
    "type": lambda kinds, value: f"expected {join_words(kinds)}, got {show(value)}",
    "required": lambda name, _: f"missing required {show(name)}",
    "enum": _describe_choices,
    "const": lambda constant, _: f"must be {show(constant)}",
    "falseSchema": lambda *_: "nothing is allowed here",
    "minimum": lambda limit, value: f"must be at least {limit}, got {show(value)}",
    "maximum": lambda limit, value: f"must be at most {limit}, got {show(value)}",
    "exclusiveMinimum": lambda limit, value: f"must be more than {limit}, got {show(value)}",
    "exclusiveMaximum": lambda limit, value: f"must be less than {limit}, got {show(value)}",
    "multipleOf": lambda unit, value: f"must be a multiple of {unit:g}, got {show(value)}",
    "minLength": lambda limit, _: f"must have at least {limit} characters",
    "maxLength": lambda limit, _: f"must have at most {limit} characters",
    "minItems": lambda limit, _: f"must have at least {limit} items",
    "maxItems": lambda limit, _: f"must have at most {limit} items",
    "minProperties": lambda limit, _: f"must have at least {limit} members",
    "maxProperties": lambda limit, _: f"must have at most {limit} members",
    "uniqueItems": lambda *_: "has the same item more than once",
}


# --------------------------------------------------------------------------------------------------------------------
# Validation: every fault of a value, each with its path and a message that a model can act on.

_KEPT = 256
_MAX_FAULTS = 100
_MAX_BAD_KEYWORDS = 20
_CANNOT_SAY = (ValueError, LookupError, TypeError, OverflowError, RecursionError)
"""The exceptions of the engine for a schema that it cannot compile."""

# Keywords without a schema in their value, with at most one error each. The engine creates all errors at once, each
# with a copy of the value, so it never gets a schema that could have thousands of them.
_LOCAL = frozenset(
    {"type", "enum", "const", "pattern", "multipleOf", "uniqueItems", "minimum", "maximum", "exclusiveMinimum"}
    | {"exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
# What the explanation of an invalid value may cost: so many values that the engine reads, and so many for each one of
# the value.
_WALK = 500_000
_WALK_PER_VALUE = 20


def validate(value: Any, schema: JsonObject) -> list[Fault]:
    """Return every fault of the value; [] if it fits the schema.

    Type names of other languages are accepted. An invalid part of a schema (an unknown type, a malformed pattern, a
    reference that does not resolve) accepts anything, and never raises. Nothing is fetched from elsewhere.
    """
    unsound = find_unsound(value)
    return find_faults(value, schema) if unsound is None else [unsound]


def find_faults(value: Any, schema: JsonObject) -> list[Fault]:
    """The same for a value that is known to be valid JSON."""
    if isinstance(value, dict) and fits_plainly(value, schema):
        return []
    checks = _checks_of(schema)
    if checks is None:
        return []
    if checks.effort.refusal:
        return [Fault("$", f"cannot be checked: {checks.effort.refusal}")]
    work = checks.effort.count(value)
    if work > MOST_VISITS:
        return [Fault("$", f"cannot be checked: that takes more than {MOST_VISITS} steps with its schema")]
    if checks.accepts(checks.schema, value):
        return _find_inexact(value, schema) if checks.effort.has_extreme else []
    walk = _Walk(checks, value, work)
    with suppress(*_CANNOT_SAY):  # The value is invalid in any case; the faults found so far are returned.
        walk.look(checks.schema, value, "$")
    return walk.faults or [Fault("$", "does not fit the schema")]


def _find_inexact(value: Any, schema: JsonObject) -> list[Fault]:
    """Return the floats in the place of an integer that may stand for several integers.

    JSON Schema accepts 1e300 as an integer. A tool that receives it, or what it was rounded from, gets a guess.
    """
    shape = shape_of(schema)
    if fits(shape, value, exact=False):
        return []
    copied = deepcopy(value)
    large = list(islice(_large_floats(copied), _MAX_FAULTS))
    for holder, key, number, _ in large:
        holder[key] = int(number)
    faults = []
    for holder, key, number, path in large:
        holder[key] = number
        if not fits(shape, copied, exact=False):
            faults.append(Fault(path, f"expected integer, got {show(number)}: write all its digits"))
        holder[key] = int(number)
    return faults or [Fault("$", "has a number with an exponent or a fraction in the place of an integer")]


def _large_floats(value: Any) -> Iterator[tuple[Any, Any, float, str]]:
    """Return where the large floats are: what holds them, and their path."""
    waiting = [(value, "$")]
    while waiting:
        holder, path = waiting.pop()
        members = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, item in list(members):
            place = child_path(path, key)
            if isinstance(item, float) and abs(item) >= MOST_EXACT:
                yield holder, key, item, place
            waiting.append((item, place))


class _Checks:
    """A schema with compiled validators for itself and, on first use, for its parts."""

    __slots__ = ("_compile", "_locals", "_validators", "effort", "schema", "source")

    def __init__(self, source: object) -> None:
        # The schema engine is imported only when something is validated.
        from jsonschema_rs import FancyRegexOptions, ReferencingError, Registry, ValidationError, validator_for

        self.source = source  # A strong reference, so that no other object gets the identity under which it is cached.
        self.schema = normalise(source)
        # The engine cannot be interrupted, so it is not used for what would take it too long.
        self.effort = Effort(source)
        if self.effort.refusal:
            return
        registry: Any = None
        patterns = FancyRegexOptions(backtrack_limit=MOST_ATTEMPTS)

        def build(schema: Any) -> Any:
            return validator_for(schema, registry=registry, validate_formats=False, pattern_options=patterns)

        for _ in range(_MAX_BAD_KEYWORDS):
            try:
                registry = Registry([(BASE, self.schema)], retriever=refuse_to_fetch)
                whole = build(self.schema)
                break
            except ReferencingError as problem:
                raise LookupError(str(problem)) from problem
            except ValidationError as problem:
                if not _remove(self.schema, problem.instance_path):
                    raise
        else:
            raise ValueError("too many broken keywords")
        self._compile = build
        self._validators: dict[int, Any] = {id(self.schema): whole}
        self._locals: dict[int, Any] = {}

    def accepts(self, schema: Any, value: Any) -> bool:
        validator = self._validators.get(id(schema))
        if validator is None:
            validator = self._validators[id(schema)] = self._compile(schema)
        return bool(validator.is_valid(value))

    def local_errors(self, schema: dict[str, Any], value: Any) -> list[Any]:
        """Return the errors of the schema's own keywords, without its parts, branches and members."""
        validator = self._locals.get(id(schema))
        if validator is None:
            validator = self._locals[id(schema)] = self._compile(_local(schema))
        return list(validator.iter_errors(value))

    def target(self, reference: str) -> Any:
        return self.schema["$defs"][reference.rpartition("/")[2]]


def _local(schema: dict[str, Any]) -> dict[str, Any]:
    local: dict[str, Any] = {key: value for key, value in schema.items() if key in _LOCAL}
    if schema.get("additionalProperties") is False:
        local["additionalProperties"] = False
        for key in ("properties", "patternProperties"):
            if key in schema:
                local[key] = dict.fromkeys(schema[key], True)
    return local


def _remove(schema: Any, place: list[str | int]) -> bool:
    """Remove the keyword at a place of the schema; return False if there is none."""
    if not place:
        return False
    node = schema
    for step in place[:-1]:
        node = node[step]
    if not isinstance(node, dict) or place[-1] not in node:
        return False
    del node[place[-1]]
    return True


_kept: dict[int, tuple[object, _Checks | None]] = {}


def _checks_of(schema: object) -> _Checks | None:
    """Return the compiled checks, cached by identity; None if the schema cannot be compiled and accepts anything."""
    known = _kept.get(id(schema))
    if known is None:
        if len(_kept) >= _KEPT:
            _kept.clear()
        try:
            checks = _Checks(schema) if isinstance(schema, dict) else None
        except _CANNOT_SAY:
            checks = None
        known = _kept[id(schema)] = (schema, checks)
    return known[1]


class _Walk:
    """A walk through an invalid value, place by place. In a union, it follows only the branch that was meant.

    The errors of every branch would take exponential time for recursive schemas.
    """

    __slots__ = ("_checks", "_compiled", "_left", "_seen", "_sizes", "_times", "faults")

    def __init__(self, checks: _Checks, value: Any, work: int) -> None:
        self._checks = checks
        self._seen: set[tuple[int, str]] = set()
        self._compiled: set[int] = set()
        extent = measure(value)
        self._sizes = extent.sizes
        self._left = _WALK + _WALK_PER_VALUE * extent.nodes
        self._times = MOST_VISITS // max(work, 1)
        self.faults: list[Fault] = []

    def _accepts(self, schema: Any, value: Any) -> bool:
        self._spend(value)
        if id(schema) not in self._compiled:
            # A schema is compiled together with everything to which it refers.
            self._compiled.add(id(schema))
            self._left -= self._checks.effort.size
        return self._checks.accepts(schema, value)

    def _look_inside(self, schema: Any, value: Any, path: str) -> None:
        """Look at a branch. The unions on one level take the validator as long as the whole value, at most."""
        self._times -= 1
        if self._times < 0:
            raise ValueError("the explanation takes too long")
        self.look(schema, value, path)
        self._times += 1

    def _spend(self, value: Any) -> None:
        """Count what it costs to hand a value to the engine."""
        self._left -= self._sizes.get(id(value), 1)
        if self._left < 0:
            raise ValueError("the explanation takes too long")

    def look(self, schema: Any, value: Any, path: str) -> None:
        key = (id(schema), path)
        if key in self._seen or len(self.faults) >= _MAX_FAULTS:
            return
        self._spend(value)
        self._seen.add(key)
        if not isinstance(schema, dict):
            if schema is False:
                self.fault(path, "nothing is allowed here")
            return
        if isinstance(value, dict):
            self._look_for_required(schema, value, path)
        wrong_type = False
        for error in self._checks.local_errors(schema, value):
            place = path
            for step in error.instance_path:
                place = child_path(place, step)
            for why in describe(error, schema):
                self.fault(place, why)
            wrong_type = wrong_type or error.kind.name == "type"
        if not wrong_type:
            self._look_at_parts(schema, value, path)
            self._look_at_members(schema, value, path)

    def _look_at_parts(self, schema: dict[str, Any], value: Any, path: str) -> None:
        """Look at the schemas that apply to the same value."""
        if "$ref" in schema:
            self.look(self._checks.target(schema["$ref"]), value, path)
        for part in schema.get("allOf", ()):
            self.look(part, value, path)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                self._look_at_union(schema[keyword], value, path, exactly_one=keyword == "oneOf")
        if "not" in schema and self._accepts(schema["not"], value):
            self.fault(path, "has a form that is not allowed")
        if "if" in schema:
            branch = schema.get("then" if self._accepts(schema["if"], value) else "else", True)
            self._look_inside(branch, value, path)

    def fault(self, path: str, why: str) -> None:
        fault = Fault(path, why)
        if len(self.faults) < _MAX_FAULTS and fault not in self.faults:
            self.faults.append(fault)

    def _look_for_required(self, schema: dict[str, Any], value: dict[str, Any], path: str) -> None:
        names = schema.get("required", [])
        for name, needed in schema.get("dependentRequired", {}).items():
            if name in value:
                names = [*names, *needed]
        for name in names:
            if name not in value:
                self.fault(path, f"missing required {show(name)}")

    def _look_at_members(self, schema: dict[str, Any], value: Any, path: str) -> None:
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            additional = schema.get("additionalProperties", True)
            named = schema.get("propertyNames", True)
            for key, item in value.items():
                if named is not True and not self._accepts(named, key):
                    self.fault(path, f"the name {show(key)} is not allowed")
                if key in properties:
                    self.look(properties[key], item, child_path(path, key))
                elif isinstance(additional, dict) and "patternProperties" not in schema:
                    self.look(additional, item, child_path(path, key))
        elif isinstance(value, list):
            if "contains" in schema:
                fitting = sum(self._accepts(schema["contains"], item) for item in value)
                least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
                if not least <= fitting <= most:
                    self.fault(path, f"has {fitting} items of a form of which it must have {least} to {most}")
            prefix = schema.get("prefixItems", ())
            for position, item in enumerate(value):
                child = prefix[position] if position < len(prefix) else schema.get("items", True)
                self.look(child, item, child_path(path, position))

    def _look_at_union(self, branches: list[Any], value: Any, path: str, *, exactly_one: bool) -> None:
        fitting = sum(self._accepts(branch, value) for branch in branches)
        if fitting == 1 or (fitting and not exactly_one):
            return
        if fitting:
            self.fault(path, f"fits {fitting} of the forms of which it may take one")
            return
        plain = [self._resolved(branch) for branch in branches]
        possible = [branch for branch in plain if _takes_kind_of(branch, value)]
        meant = possible if len(possible) == 1 else [branch for branch in possible if _is_recognised(branch, value)]
        if len(meant) == 1:
            before = len(self.faults)
            self._look_inside(meant[0], value, path)
            if len(self.faults) > before:
                return
        kinds = _kinds_of_branches(plain)
        if not possible and kinds:
            self.fault(path, f"expected {join_words(kinds)}, got {show(value)}")
        else:
            self.fault(path, f"fits none of the {len(branches)} forms that it may take")

    def _resolved(self, schema: Any) -> Any:
        for _ in range(20):
            if not isinstance(schema, dict) or "$ref" not in schema or len(schema) > 1:
                break
            schema = self._checks.target(schema["$ref"])
        return schema


def _kinds(schema: Any) -> list[str]:
    kinds = schema.get("type", []) if isinstance(schema, dict) else []
    return kinds if isinstance(kinds, list) else [kinds]


def _takes_kind_of(schema: Any, value: Any) -> bool:
    if schema is False:
        return False
    kinds, kind = _kinds(schema), KIND_OF_TYPE.get(type(value), "")
    return not kinds or kind in kinds or (kind == "integer" and "number" in kinds)


def _is_recognised(schema: Any, value: Any) -> bool:
    """Whether the value has the constants (`"type": "circle"`) or required names that distinguish a branch."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    marks = {name: each["const"] for name, each in properties.items() if isinstance(each, dict) and "const" in each}
    if marks:
        return all(name in value and value[name] == mark for name, mark in marks.items())
    return bool(required) and all(name in value for name in required)


def _kinds_of_branches(branches: list[Any]) -> list[str]:
    """Return the kinds of all branches; [] if one of them names none."""
    if not all(_kinds(branch) for branch in branches):
        return []
    return list(dict.fromkeys(kind for branch in branches for kind in _kinds(branch)))


# --------------------------------------------------------------------------------------------------------------------
# `load`: decode, repair, coerce, validate.

MOST_MEMBERS = 200_000
"""More members than any model writes in one reply; a larger input is likely an attack."""


class Loaded(Struct, frozen=True):
    """The arguments, with all repairs, changes and errors.

    `value` is None if the arguments cannot be read. A `value` with `errors` does not fit the schema.
    """

    value: JsonObject | None
    repairs: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    errors: tuple[Fault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a tool may run with these arguments."""
        return self.value is not None and not self.errors


_PLAIN = 50_000
"""The most characters of arguments that are only compared with their schema. Larger ones are measured first."""


def load(raw: str | Mapping[str, Any] | None, tool: object = None, *, drop_extra: bool = False) -> Loaded:
    """Decode, repair, coerce and validate the arguments of a call of `tool`. No `raw` raises an exception.

    `raw` is a mapping or JSON text; an empty text means no arguments. `tool` is any description of a tool, or a bare
    JSON Schema. `drop_extra` removes arguments that the tool does not name.
    """
    schema = _schema_of(tool)
    value, repairs, fault = _understand(raw)
    if fault is None and (repairs or not isinstance(raw, str)):
        # Text that needed no repair came from the strict decoder, which accepts only valid JSON.
        fault = find_unsound(value)
    if fault is not None:
        return Loaded(None, repairs, (), (fault,))
    if not schema:
        # There is no schema: every object is valid.
        return Loaded(value, repairs)
    if not drop_extra and isinstance(raw, str) and len(raw) <= _PLAIN and fits_plainly(value, schema):
        return Loaded(value, repairs)
    coerced = coerce(value, schema, drop_extra=drop_extra)
    return Loaded(coerced.value, repairs, coerced.changes, tuple(find_faults(coerced.value, schema)))


def _schema_of(tool: object) -> JsonObject:
    if tool is None:
        return {}
    if isinstance(tool, Tool):
        return tool.parameters
    if (
        isinstance(tool, dict)
        and not isinstance(tool.get("name"), str)
        and not isinstance(tool.get("function"), Mapping)
    ):
        return tool
    return as_tool(tool).parameters


def _understand(raw: object) -> tuple[Any, tuple[str, ...], Fault | None]:
    """Return the object of arguments, the repairs, and a fault if there is no object."""
    value: Any = {} if raw is None else raw
    repairs: tuple[str, ...] = ()
    if isinstance(value, str):
        value, repairs, fault = _read(value)
        if fault is None and isinstance(value, str):
            value, inner, fault = _read(value)
            repairs = (*repairs, "double_encoded", *inner)
        if fault is not None:
            return None, repairs, fault
    if value is None:
        return {}, (*repairs, "null_arguments"), None
    if type(value) is dict:
        return value, repairs, None
    if isinstance(value, Mapping):
        return dict(value), repairs, None
    return None, repairs, Fault("$", f"arguments must be an object, got {show(value)}")


def _read(text: str) -> tuple[Any, tuple[str, ...], Fault | None]:
    if not text or text.isspace():
        return {}, (), None
    if len(text) > MOST_MEMBERS and (members := text.count('":')) > MOST_MEMBERS:
        return None, (), Fault("$", f"about {members} members; the limit is {MOST_MEMBERS}")
    try:
        return decode(text), (), None
    except Undecodable:
        repaired = repair(text)
    if repaired.error is not None:
        return None, (), Fault("$", repaired.error)
    return repaired.value, repaired.rules, None
