"""Many layers into one answer per setting. Pure: no file is read here, and no environment.

Later layers win over earlier ones, in this order: default, project, user, environment, arguments. Three rules bend it.
A project may only tighten: what it says is weighed against the user's own word, setting by setting. What is added to
a list of forbidden or guarded tools stays there, whoever adds it: naming one more never frees another. And a managed
file is over everybody: it sets what nobody overrules, and of what can be tightened it is the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dragoman.config.layers import Layer, Origin, Said, Source
from dragoman.config.settings import SETTINGS, Setting

ORDER: tuple[Source, ...] = ("default", "project", "user", "environment", "argument", "managed")


class Overridden(Struct, frozen=True):
    """A value that was said and does not count, and why."""

    said: Said
    why: str
    is_refused: bool = False
    """Whether a project said what it may not."""


class Settled(Struct, frozen=True):
    """What became of a setting."""

    value: Any
    origin: Origin
    """Whoever said it; of a list that several added to, the last of them."""
    overridden: tuple[Overridden, ...] = ()
    also: tuple[Origin, ...] = ()
    """The others that added to the list."""
    parts: tuple[Said, ...] = ()
    """What each of them added."""


def merge(layers: Sequence[Layer]) -> dict[str, Settled]:
    """The answer for every setting."""
    ranked = sorted(layers, key=lambda layer: ORDER.index(layer.kind))
    return {
        name: settle(setting, [layer.said[name] for layer in ranked if name in layer.said])
        for name, setting in SETTINGS.items()
    }


def settle(setting: Setting, said: Sequence[Said]) -> Settled:
    """The answer for one setting; `said` is in the order of `ORDER` and not empty."""
    if setting.merge in ("union", "user_union"):
        return _unite(said)
    settled = _settle_own(setting, [each for each in said if each.origin.kind != "managed"])
    managed = next((each for each in said if each.origin.kind == "managed"), None)
    return settled if managed is None else _bind(setting, managed, settled)


def is_tighter(setting: Setting, one: Any, other: Any) -> bool:
    """Whether `one` allows less than `other`. None is no limit at all."""
    if setting.merge == "lower":
        return one is not None and (other is None or bool(one < other))
    if setting.merge == "stricter":
        return setting.rank(one) < setting.rank(other)
    return setting.merge == "narrow" and set(one) < set(other)


def _settle_own(setting: Setting, said: Sequence[Said]) -> Settled:
    """The answer without what is managed: the user's own word, and the project's where it is tighter."""
    own = [each for each in said if each.origin.kind != "project"]
    project = next((each for each in said if each.origin.kind == "project"), None)
    winner = own[-1]
    beaten = [Overridden(each, f"{winner.origin} comes first") for each in own[:-1]]
    if project is None:
        return Settled(winner.value, winner.origin, tuple(beaten))
    if _project_counts(setting, project, winner):
        why = f"the project's {project.origin} is tighter" if winner.origin.kind == "user" else "a default"
        value = _narrow(winner.value, project.value) if setting.merge == "narrow" else project.value
        return Settled(value, project.origin, (*beaten, Overridden(winner, why)))
    return Settled(winner.value, winner.origin, (*beaten, _pass_over(setting, project, winner)))


def _pass_over(setting: Setting, project: Said, winner: Said) -> Overridden:
    if winner.origin.kind in ("default", "user") and setting.merge in ("lower", "stricter", "narrow"):
        if project.value == winner.value:
            return Overridden(project, f"the same as {winner.origin}")
        return Overridden(project, f"looser than {winner.origin}; a project may only tighten", is_refused=True)
    return Overridden(project, f"{winner.origin} comes first")


def _project_counts(setting: Setting, project: Said, winner: Said) -> bool:
    # Whoever starts the program speaks last: the environment and the arguments are over both files.
    if winner.origin.kind in ("environment", "argument"):
        return False
    if setting.merge == "suggest":
        return winner.origin.kind == "default"
    if setting.merge == "narrow":
        return len(_narrow(winner.value, project.value)) < len(winner.value)
    return is_tighter(setting, project.value, winner.value)


def _bind(setting: Setting, managed: Said, settled: Settled) -> Settled:
    """The answer under a managed file."""
    own = Said(settled.value, settled.origin)
    if setting.merge == "narrow":
        value = _narrow(managed.value, own.value)
        if value == own.value:
            return _keep(settled, managed, "wider")
    elif setting.merge in ("lower", "stricter"):
        value = managed.value
        if not is_tighter(setting, value, own.value):
            return _keep(settled, managed, "no tighter")
    else:
        value = managed.value
    why = f"{managed.origin} is managed, and nobody overrules it"
    return Settled(value, managed.origin, (*settled.overridden, Overridden(own, why)))


def _keep(settled: Settled, managed: Said, how: str) -> Settled:
    lost = Overridden(managed, f"{how} than {settled.origin}")
    return Settled(settled.value, settled.origin, (*settled.overridden, lost))


def _narrow(names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in others)


def _unite(said: Sequence[Said]) -> Settled:
    # A default of no entries adds nothing and is not worth naming.
    adding = [each for each in said if each.value] or list(said[:1])
    entries = tuple(dict.fromkeys(entry for each in adding for entry in each.value))
    origins = [each.origin for each in adding]
    return Settled(entries, origins[-1], (), tuple(origins[:-1]), tuple(adding))
