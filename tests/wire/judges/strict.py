"""Hold a JSON value against an official client's own types, more strictly than the client does.

The clients let much pass: they ignore unknown keys, take a snake_case name for a camelCase one, or build their models
without looking at the values. Here a key that the type does not have, a wrong value and a missing tag are errors.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import enum
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

Extras = Mapping[type, Mapping[str, Any]]
"""For a model: keys, with their types, as the server reads them where the fields of the model say it otherwise."""


class Misfit(AssertionError):
    """A value that the client's types have no place for; the message begins with its path."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


def check_keys(
    value: Any, known: Mapping[str, Any], extras: Extras | None = None, required: Sequence[str] = ()
) -> None:
    """Raise a Misfit unless `value` is an object with only `known` keys, each of its type, and all `required` ones."""
    _check_object(value, known, required, "$", extras or {})


def check(value: Any, wanted: Any, path: str = "$", extras: Extras | None = None) -> None:
    """Raise a Misfit unless the JSON value fits the annotation `wanted`: a model, a Literal, a union, a list..."""
    extras = extras or {}
    wanted = _strip(wanted)
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return
    if origin is typing.Union or origin is types.UnionType:
        _check_union(value, inner, path, extras)
    elif origin is typing.Literal:
        _demand(value in inner, path, f"{value!r} is none of {inner}")
    elif _is_model(wanted):
        _check_model(value, wanted, path, extras)
    elif isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        _demand(value in [member.value for member in wanted], path, f"{value!r} is no {wanted.__name__}")
    elif origin in {list, Sequence}:
        _demand(isinstance(value, list), path, f"a list is wanted, this is {value!r}")
        for index, item in enumerate(value):
            check(item, inner[0], f"{path}[{index}]", extras)
    elif origin in {dict, Mapping}:
        _demand(isinstance(value, dict), path, f"an object is wanted, this is {value!r}")
        for key, item in value.items():
            check(item, inner[1], f"{path}.{key}", extras)
    else:
        _check_scalar(value, wanted, path)


def _strip(wanted: Any) -> Any:
    """The annotation without its Annotated."""
    while typing.get_origin(wanted) is typing.Annotated:
        wanted = typing.get_args(wanted)[0]
    return wanted


def _demand(right: bool, path: str, why: str) -> None:
    if not right:
        raise Misfit(path, why)


def _check_scalar(value: Any, wanted: Any, path: str) -> None:
    kinds: dict[Any, tuple[type, ...]] = {
        type(None): (type(None),),
        bool: (bool,),
        int: (int,),
        float: (int, float),
        str: (str,),
        bytes: (str,),
        dict: (dict,),
        list: (list,),
        datetime.datetime: (str,),
    }
    _demand(wanted in kinds, path, f"no rule for the type {wanted!r}")
    right = isinstance(value, kinds[wanted]) and (wanted is bool or not isinstance(value, bool))
    _demand(right, path, f"{value!r} is no {wanted.__name__}")
    if wanted is bytes:
        try:
            base64.b64decode(value.translate(str.maketrans("-_", "+/")), validate=True)
        except binascii.Error as error:
            raise Misfit(path, f"{value!r} is not base64 ({error})") from None


def _check_union(value: Any, members: tuple[Any, ...], path: str, extras: Extras) -> None:
    misfits: list[Misfit] = []
    for member in _tightest(value, members):
        try:
            return check(value, member, path, extras)
        except Misfit as misfit:
            misfits.append(misfit)
    # The member that went along furthest was the one that was meant.
    raise max(misfits, key=lambda misfit: len(misfit.path))


def _tightest(value: Any, members: tuple[Any, ...]) -> list[Any]:
    """The members of a union that can have been meant."""
    members = tuple(map(_strip, members))
    models = [member for member in members if _is_model(member)]
    tagged = [model for model in models if isinstance(value, dict) and _has_tags(value, model)]
    if tagged:
        return tagged
    if models:
        # `Mapping | Message` is how a client says that a plain dict will do for the model, not that any dict will.
        return [member for member in members if typing.get_origin(member) not in {dict, Mapping}]
    # `Literal["a", "b"] | Any` is how a client says that there may be more one day.
    tight = [member for member in members if member is not Any]
    return list(members) if set(tight) <= {type(None)} else tight


def _is_model(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, pydantic.BaseModel)


def _has_tags(value: dict[str, Any], model: type[pydantic.BaseModel]) -> bool:
    """Whether the model has tags, such as a `type` of its own, and the value has the very same."""
    fields = {name: _strip(field.annotation) for name, field in model.model_fields.items()}
    tags = {name: wanted for name, wanted in fields.items() if typing.get_origin(wanted) is typing.Literal}
    return bool(tags) and all(value.get(name) in typing.get_args(wanted) for name, wanted in tags.items())


def _check_model(value: Any, model: type[pydantic.BaseModel], path: str, extras: Extras) -> None:
    model.model_rebuild()
    known: dict[str, Any] = {}
    required: list[str] = []
    for name, field in model.model_fields.items():
        key = field.alias or name
        known[key] = _resolve(field.annotation, model)
        # A tag such as `type: Literal["text"] = "text"` has a default in Python; on the wire it has to be said.
        tag = typing.get_origin(_strip(field.annotation)) is typing.Literal
        if field.is_required() or tag:
            required.append(key)
    _check_object(value, {**known, **extras.get(model, {})}, required, path, extras)


def _check_object(value: Any, known: Mapping[str, Any], required: Sequence[str], path: str, extras: Extras) -> None:
    _demand(isinstance(value, dict), path, f"an object is wanted, this is {value!r}")
    for key in value:
        _demand(key in known, f"{path}.{key}", f"unknown key; known are {', '.join(sorted(known))}")
    for key in required:
        _demand(key in value, path, f"the key {key!r} is missing")
    for key, item in value.items():
        check(item, known[key], f"{path}.{key}", extras)


def _resolve(wanted: Any, model: type) -> Any:
    """Put the classes in the place of the names in an annotation that was left unresolved."""
    if isinstance(wanted, typing.ForwardRef):
        wanted = wanted.__forward_arg__
    if isinstance(wanted, str):
        return vars(sys.modules[model.__module__])[wanted]
    inner = typing.get_args(wanted)
    if inner and typing.get_origin(wanted) is not typing.Literal:
        resolved = tuple(_resolve(member, model) for member in inner)
        return wanted if resolved == inner else wanted.copy_with(resolved)
    return wanted
