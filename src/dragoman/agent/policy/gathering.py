"""The rules of an agent, from the ways in which somebody may write them down."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.agent.policy.decisions import Mode, Rule, Rules, Verdict
from dragoman.agent.policy.modes import MODES
from dragoman.agent.policy.rules import read_rule
from dragoman.errors import ConfigError, nearest


def gather_rules(
    mode: Mode | None,
    rules: Rules | Iterable[Rule] | None,
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> Rules:
    """Rules as they are, and those that are written as text: `allow=["bash(git status*)"]`."""
    if mode is not None and mode not in MODES:
        guess = nearest(str(mode), MODES)
        raise ConfigError(
            f"there is no mode {mode!r}" + (f"; did you mean {guess!r}?" if guess else ""),
            hint=f"the modes are {', '.join(MODES)}",
        )
    gathered = rules if isinstance(rules, Rules) else Rules(rules=tuple(rules or ()))
    written: list[tuple[Verdict, Iterable[str]]] = [("deny", deny), ("ask", ask), ("allow", allow)]
    added: list[Rule] = []
    for verdict, texts in written:
        if isinstance(texts, str):
            raise ConfigError(f"{verdict} is a single string", hint=f'give a list: {verdict}=["{texts}"]')
        added += [read_rule(text, verdict, "user") for text in texts]
    return replace(gathered, mode=mode or gathered.mode, rules=(*gathered.rules, *added))
