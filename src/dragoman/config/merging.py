"""Many layers into one answer per setting. Pure: no file is read here, and no environment.

Later layers win over earlier ones, in this order: default, project, user, environment, arguments. Two rules bend it.
A project may only tighten: what it says is weighed against the user's own word, setting by setting. And what is added
to a list of forbidden or guarded tools stays there, whoever adds it: naming one more never frees another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dragoman.config.layers import Layer, Origin, Said, Source
from dragoman.config.settings import SETTINGS, Setting

ORDER: tuple[Source, ...] = ("default", "project", "user", "environment", "argument")


class Overridden(Struct, frozen=True):
    """A value that was said and does not count, and why."""

    said: Said
    why: str


class Settled(Struct, frozen=True):
    """What became of a setting."""

    value: Any
    origin: Origin
    """Whoever said it; of a list that several added to, the last of them."""
    overridden: tuple[Overridden, ...] = ()
    also: tuple[Origin, ...] = ()
    """The others that added to the list."""


def merge(layers: Sequence[Layer]) -> dict[str, Settled]:
    """The answer for every setting."""
    ranked = sorted(layers, key=lambda layer: ORDER.index(layer.kind))
    return {
        name: settle(setting, [layer.said[name] for layer in ranked if name in layer.said])
        for name, setting in SETTINGS.items()
    }


def settle(setting: Setting, said: Sequence[Said]) -> Settled:
    """The answer for one setting; `said` is in the order of `ORDER` and not empty."""
    if setting.merge == "union":
        return _unite(said)
    own = [each for each in said if each.origin.kind != "project"]
    project = next((each for each in said if each.origin.kind == "project"), None)
    winner = own[-1]
    beaten = [Overridden(each, f"{winner.origin} comes first") for each in own[:-1]]
    if project is None:
        return Settled(winner.value, winner.origin, tuple(beaten))
    if _project_counts(setting, project, winner):
        why = f"the project's {project.origin} is tighter" if winner.origin.kind == "user" else "a default"
        return Settled(project.value, project.origin, (*beaten, Overridden(winner, why)))
    reason = f"{winner.origin} comes first"
    if winner.origin.kind in ("default", "user") and setting.merge in ("lower", "stricter"):
        reason = f"looser than {winner.origin}; a project may only tighten"
    return Settled(winner.value, winner.origin, (*beaten, Overridden(project, reason)))


def is_tighter(setting: Setting, one: Any, other: Any) -> bool:
    """Whether `one` allows less than `other`. None is no limit at all."""
    if setting.merge == "lower":
        return one is not None and (other is None or one < other)
    if setting.merge == "stricter":
        return setting.strictness.index(one) < setting.strictness.index(other)
    return False


def _project_counts(setting: Setting, project: Said, winner: Said) -> bool:
    # Whoever starts the program speaks last: the environment and the arguments are over both files.
    if winner.origin.kind in ("environment", "argument"):
        return False
    if setting.merge == "suggest":
        return winner.origin.kind == "default"
    return is_tighter(setting, project.value, winner.value)


def _unite(said: Sequence[Said]) -> Settled:
    # A default of no entries adds nothing and is not worth naming.
    adding = [each for each in said if each.value] or list(said[:1])
    entries = tuple(dict.fromkeys(entry for each in adding for entry in each.value))
    origins = [each.origin for each in adding]
    return Settled(entries, origins[-1], (), tuple(origins[:-1]))
