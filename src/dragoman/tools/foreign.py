"""The forms of models that write their own schema and check their own values: pydantic's, msgspec's and attrs'.

Pydantic is known by what its models can do and never imported.
"""

from __future__ import annotations

import json
import typing
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.args.schemas import child_path
from dragoman.tools.forms import Form, Reading
from dragoman.types import JsonObject

if TYPE_CHECKING:
    from dragoman.tools.building import Builder

_REF = "#/$defs/"


def is_model(kind: type) -> bool:
    """Whether a class is a model in pydantic's manner."""
    return callable(getattr(kind, "model_json_schema", None)) and callable(getattr(kind, "model_validate", None))


def model_form(builder: Builder, annotation: Any, place: str) -> Form:
    """The form of a pydantic model; values are checked by the model itself."""
    model = annotation
    try:
        schema = model.model_json_schema()
    except Exception as problem:  # Whatever the library says, it is about this annotation.
        builder.refuse(annotation, place, f"gives no schema ({problem})", "change the model, or the annotation")
    schema = _adopt(builder, schema)

    def read(value: Any, path: str, reading: Reading) -> Any:
        try:
            # As JSON where that is possible: a strict model takes a date from JSON text, and not from Python text.
            validate_json = getattr(model, "model_validate_json", None)
            return model.model_validate(value) if validate_json is None else validate_json(json.dumps(value))
        except Exception as problem:
            for place, why in _faults_of(problem):
                inside = path
                for step in place:
                    inside = child_path(inside, step)
                reading.fault(inside, why)
            return None

    return Form(schema, read)


def _faults_of(problem: Exception) -> list[tuple[tuple[str | int, ...], str]]:
    """The places and words of a pydantic error; any other exception speaks of the whole value."""
    errors = getattr(problem, "errors", None)
    found = errors() if callable(errors) else None
    if not isinstance(found, list) or not found:
        return [((), str(problem))]
    return [
        (tuple(step if isinstance(step, int) else str(step) for step in each.get("loc", ())), str(each.get("msg", "")))
        for each in found
    ]


def struct_form(builder: Builder, annotation: Any, place: str) -> Form:
    """The form of a class that msgspec knows: its own Structs, and attrs classes."""
    try:
        (schema,), definitions = msgspec.json.schema_components([annotation], ref_template=_REF + "{name}")
    except Exception as problem:
        builder.refuse(annotation, place, f"gives no schema ({problem})", "change the class, or the annotation")
    schema = _adopt(builder, {**schema, "$defs": definitions})

    def read(value: Any, path: str, reading: Reading) -> Any:
        try:
            return msgspec.convert(value, annotation)
        except msgspec.ValidationError as problem:
            why, _, inside = str(problem).partition(" - at `")
            return reading.fault(path + inside.rstrip("`").removeprefix("$"), why[:1].lower() + why[1:])

    return Form(schema, read)


def _adopt(builder: Builder, schema: JsonObject) -> JsonObject:
    """A schema of another library's, its definitions moved to ours and its titles left out."""
    definitions = schema.get("$defs", {})
    names: dict[str, str] = {}
    for name, definition in definitions.items():
        plain = _rewrite(definition, {})
        names[name] = name
        # The same class, reached from two models, is one definition; another class of that name is another.
        if name in builder.definitions and builder.definitions[name] != plain:
            names[name] = builder.free_name(name)
        builder.definitions[names[name]] = plain
    if any(old != new for old, new in names.items()):
        for new in names.values():
            builder.definitions[new] = _rewrite(builder.definitions[new], names)
    found = _rewrite({key: value for key, value in schema.items() if key != "$defs"}, names)
    return typing.cast(JsonObject, found)


def _rewrite(node: Any, names: dict[str, str], *, in_names: bool = False) -> Any:
    """A copy with references renamed. `in_names`: the keys are names of members and not words of JSON Schema."""
    if isinstance(node, list):
        return [_rewrite(each, names) for each in node]
    if not isinstance(node, dict):
        return node
    written = {}
    for key, value in node.items():
        if key == "$ref" and isinstance(value, str) and value.startswith(_REF):
            name = value.removeprefix(_REF)
            written[key] = _REF + names.get(name, name)
        elif key == "title" and isinstance(value, str) and not in_names:
            continue
        else:
            written[key] = _rewrite(value, names, in_names=key in ("properties", "patternProperties") and not in_names)
    return written
