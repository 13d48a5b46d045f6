"""The rules that settings lay down, each with the scope of whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.config.effective import Config
from dragoman.config.layers import Source
from dragoman.policy import Rule, Rules, Scope, Verdict, read_rule

_SETTINGS: tuple[tuple[str, Verdict], ...] = (
    ("deny", "deny"),
    ("ask", "ask"),
    ("approvals", "ask"),
    ("allow", "allow"),
)
_SCOPES: dict[Source, Scope] = {
    "managed": "managed",
    "user": "user",
    "project": "project",
    "environment": "session",
    "argument": "session",
}


def permissions(config: Config, remembered: Iterable[Rule] = (), *, attended: bool = True) -> Rules:
    """The mode and the rules of a configuration, and what was remembered before.

    Where nobody is there to be asked, `attended` is False, and what `auto_approve` names is allowed as well. It lifts
    no more than a rule in `allow` does: not what a rule asks about, and not what is asked about in every mode.
    """
    rules = [
        read_rule(text, verdict, _SCOPES[said.origin.kind])
        for name, verdict in _SETTINGS
        for said in config.settled[name].parts
        if said.origin.kind in _SCOPES
        for text in said.value
    ]
    rules += remembered
    if not attended:
        scope = _SCOPES.get(config.origin("auto_approve").kind, "user")
        rules += [read_rule(text, "allow", scope) for text in config["auto_approve"]]
    return Rules(config["mode"], tuple(dict.fromkeys(rules)))
