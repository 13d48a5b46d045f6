"""Hold a request body to the request types of an official SDK, without the leniency that suits a caller in Python."""

from __future__ import annotations

import json
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator

# The TypedDicts name file handles and paths, which pydantic does not know; no JSON value is one of them.
_ANY_TYPES = ConfigDict(arbitrary_types_allowed=True)
# Matches no JSON value: stands where an SDK also takes one of its own response objects.
_NOTHING = {"type": "literal", "expected": [...]}
# How many of the errors are told: a union of forty types has hundreds.
_TOLD = 6


class Shape:
    """A request type of an SDK: unknown keys refused, lists read to their end, no conversion of values."""

    def __init__(self, request_type: Any, *, models: bool = False) -> None:
        """`models` says that the request itself is made of pydantic models, as mistralai has them."""
        # Or None: pydantic takes settings for a union, though not for a TypedDict on its own.
        adapter: TypeAdapter[Any] = TypeAdapter(request_type | None, config=_ANY_TYPES)
        self._validator = SchemaValidator(cast("CoreSchema", _tighten(adapter.core_schema, models=models)))

    def check(self, body: dict[str, Any]) -> None:
        """Raise an AssertionError that names the places unless the body fits."""
        try:
            # As JSON and not as Python objects: strict reading takes a dict for a model only there.
            self._validator.validate_json(json.dumps(body, ensure_ascii=False, allow_nan=False), strict=True)
        except ValidationError as error:
            raise AssertionError(explain(error)) from None


def explain(error: BaseException | None) -> str:
    """Say what pydantic found, but only for the types that were meant: those with the right `type` and `role`."""
    if not isinstance(error, ValidationError):
        return str(error)
    errors = error.errors()
    other_types = {
        error["loc"][:-1]
        for error in errors
        if error["type"] == "literal_error" and error["loc"][-1] in {"type", "role"}
    }
    meant = [
        error
        for error in errors
        if not any(error["loc"][:length] in other_types for length in range(len(error["loc"])))
    ]
    deepest_first = sorted(meant or errors, key=lambda error: -len(error["loc"]))
    return "\n".join(list(dict.fromkeys(f"{_place(error)}: {error['msg']}" for error in deepest_first))[:_TOLD])


def _place(error: ErrorDetails) -> str:
    # pydantic names a union by all its members: the name of the member that was tried is enough.
    return ".".join(str(step) for step in error["loc"] if "[" not in str(step))


def _tighten(schema: Any, *, models: bool) -> Any:
    """Copy a core schema of pydantic with the loose places made tight."""
    if isinstance(schema, list | tuple):
        return type(schema)(_tighten(part, models=models) for part in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        # The table of fields, where "type" is the name of a field like any other.
        return {name: _tighten(field, models=models) for name, field in schema.items()}
    if kind == "model" or (kind == "function-before" and models):
        # Only what is inside: the class would bring its own ready-made validator, as loose as before, and mistralai
        # lets chunks of any unknown type in with a function before the union.
        inside = _tighten(schema["schema"], models=models) if models else _NOTHING
        return inside | ({"ref": schema["ref"]} if "ref" in schema else {})
    if kind == "union" and models:
        # Without its class a member has no name, and the errors of all members would look alike.
        schema = schema | {"choices": [_labelled(choice) for choice in schema["choices"]]}
    copy = {key: part if key == "metadata" else _tighten(part, models=models) for key, part in schema.items()}
    if kind in {"typed-dict", "model-fields"}:
        copy["extra_behavior"] = "forbid"
        copy.pop("extras_schema", None)
    elif kind == "generator":
        # pydantic reads an Iterable lazily, that is never, in a check.
        copy["type"] = "list"
    return copy


def _labelled(choice: Any) -> Any:
    if isinstance(choice, dict) and choice["type"] == "model":
        return choice, choice["cls"].__name__
    if isinstance(choice, dict) and choice["type"] == "definition-ref":
        return choice, choice["schema_ref"].partition(":")[0].rpartition(".")[2]
    return choice
