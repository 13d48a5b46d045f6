"""Trust levels of calls, and the profiles that turn a level into allow, ask or refuse."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

from dragoman.errors import ConfigError, did_you_mean
from dragoman.types import Tool, ToolCall

# --------------------------------------------------------------------------------------------------------------------
# Trust levels, from a native field of the wire down to regions where a call never counts.
#
# | level | what it is |
# |---|---|
# | T5 | a native field of the wire |
# | T4 | a text wrapper that carries this turn's nonce |
# | T3 | a known wrapper in the answer (with a model's family given, one of that family), or an improvised call of an
# |    | offered tool that is marked and alone on its lines |
# | T2 | the whole message is calls of offered tools, or its last line is one in Python, or the model confirmed a call |
# | T1 | found only by a loose search: JSON in prose, another family's wrapper, an old nonce |
# | T0 | inside thinking, a quotation, code that is not part of the format, a comment, a table or a string |

Level = Literal["T5", "T4", "T3", "T2", "T1", "T0"]

_NEVER = frozenset({"thinking", "quote", "fence", "code", "comment", "table", "string"})


_WRAPPED = frozenset({"T5", "T4", "T3"})
"""Levels at which a call has a wrapper or a field of its own. Below them, a tool of class `exec` always asks."""


def find_level(call: ToolCall, region: str, family: Collection[str] | None = None) -> Level:
    """Return the level of a call in a region of the reply. `family` are the formats of the model."""
    provenance = call.provenance
    if provenance is not None and provenance.channel == "native":
        return "T5"
    if region in _NEVER:
        return "T0"
    # Loaded with the parsers, which found the call.
    from dragoman.formats import NONCE, STALE_NONCE

    written = provenance.format if provenance is not None else ""
    if written == NONCE:
        return "T4"
    if region in ("loose", "sentence") or written == STALE_NONCE:
        return "T1"
    if region == "message":
        return "T2"
    if region == "last_line":
        return "T2"
    if family is not None and written not in family and region != "marked":
        return "T1"
    return "T3"


# --------------------------------------------------------------------------------------------------------------------
# The verdict on a call: allow, ask, or refuse.
#
# A profile is a row. `default` lets a weak model work without configuration and stops copied calls. `strict` is for
# unattended agents. `compat` also runs text that the others do not accept as a call at all.

Verdict = Literal["allow", "ask", "refuse"]


class Profile(Struct, frozen=True):
    """The verdict for each level, before any other rule."""

    name: str
    wrapped: Verdict
    """T3."""
    bare: Verdict
    """T2."""
    loose: Verdict
    """T1."""
    followed: Verdict
    """T3 and below, with text after the call, in a conversation with untrusted content."""
    needs_nonce: bool = False
    """Instruct the model to use a wrapper with a nonce, so that its own calls are T4."""


class Situation(Struct, frozen=True):
    """Everything that a verdict depends on."""

    level: Level
    tool: Tool | None = None
    echo: Literal["none", "exact", "similar"] = "none"
    echo_source: str = ""
    is_followed: bool = False
    """Text follows the call."""
    has_untrusted: bool = False
    """The conversation contains untrusted content."""
    repairs: tuple[str, ...] = ()


class Judgement(Struct, frozen=True):
    verdict: Verdict
    rule: str
    """The stable name of the rule: `level`, `echo`, `echo_similar`, `position`, `exec`, `wrapper`, `bare`, `loose`,
    `place`."""
    why: str = ""


PROFILES = {
    "strict": Profile("strict", wrapped="ask", bare="refuse", loose="refuse", followed="refuse", needs_nonce=True),
    "default": Profile("default", wrapped="allow", bare="allow", loose="refuse", followed="ask"),
    "compat": Profile("compat", wrapped="allow", bare="allow", loose="allow", followed="allow"),
}
_ORDER: dict[Verdict, int] = {"allow": 0, "ask": 1, "refuse": 2}


def get_profile(trust: str | Profile) -> Profile:
    """Return the profile with this name."""
    if isinstance(trust, Profile):
        return trust
    if trust not in PROFILES:
        raise ConfigError(
            f"unknown trust profile {trust!r}{did_you_mean(trust, PROFILES)}",
            hint=f"the profiles are {', '.join(PROFILES)}",
        )
    return PROFILES[trust]


def stricter(one: str | Profile, other: str | Profile) -> Profile:
    """Combine two profiles: the stricter one of each pair of verdicts."""
    first, second = get_profile(one), get_profile(other)
    if first == second:
        return first
    return Profile(
        f"{first.name} and {second.name}",
        max(first.wrapped, second.wrapped, key=_ORDER.__getitem__),
        max(first.bare, second.bare, key=_ORDER.__getitem__),
        max(first.loose, second.loose, key=_ORDER.__getitem__),
        max(first.followed, second.followed, key=_ORDER.__getitem__),
        first.needs_nonce or second.needs_nonce,
    )


def find_doubt(call: ToolCall, tool: Tool) -> str:
    """Return why the origin of a call needs an approval that no permission rule can replace; empty if it does not."""
    provenance = call.provenance
    if provenance is None:
        return ""
    if provenance.verdict not in (None, "allow"):
        why = provenance.why or "calls of this trust level need an approval"
        return f"the call was read from text ({name_level(call)}), and {why}"
    if _asks_as_exec("T5" if provenance.channel == "native" else provenance.level, tool):
        return f"{tool.name} acts on the system, and the call has no wrapper of its own ({name_level(call)})"
    return ""


def name_level(call: ToolCall) -> str:
    """Return the level of a call, as reasons and records name it."""
    return (call.provenance.level if call.provenance is not None else None) or "unjudged"


def _asks_as_exec(level: str | None, tool: Tool | None) -> bool:
    """The rule for tools of class `exec`. A call without a level counts as a call without a wrapper."""
    return level not in _WRAPPED and tool is not None and tool.is_exec


def decide(situation: Situation, profile: Profile) -> Judgement:
    """Return the strictest verdict of the rules on the level, the echo, the position and the tool."""
    if situation.level == "T5":
        return Judgement("allow", "level")
    if situation.level == "T0":
        return Judgement(
            "refuse", "place", "calls do not count in thinking, quotations, code, comments, tables and strings"
        )
    judgements = [*_judge_echo(situation), _judge_level(situation, profile)]
    if situation.level != "T4" and situation.is_followed and situation.has_untrusted:
        words = "text follows the call, and the conversation contains untrusted content"
        judgements.append(Judgement(profile.followed, "position", words))
    if _asks_as_exec(situation.level, situation.tool):
        words = "the tool acts on the system, and the call has no wrapper of its own"
        judgements.append(Judgement("ask", "exec", words))
    elif situation.tool is not None and situation.tool.is_exec and "closed_wrapper" in situation.repairs:
        judgements.append(Judgement("ask", "exec", "the tool acts on the system, and the call has no end"))
    if "guessed_name" in situation.repairs:
        judgements.append(Judgement("ask", "wrapper", "the call names no tool; its arguments fit only this one"))
    if "closed_string" in situation.repairs:
        judgements.append(Judgement("ask", "wrapper", "a string in the call, or in one before it, has no end"))
    return max(judgements, key=lambda judgement: _ORDER[judgement.verdict])


def _judge_level(situation: Situation, profile: Profile) -> Judgement:
    verdict, rule, why = {
        "T3": (profile.wrapped, "wrapper", "its wrapper has no nonce, so untrusted content may contain it"),
        "T2": (profile.bare, "bare", "the message is bare JSON, without a wrapper"),
        "T1": (profile.loose, "loose", "it is not in the expected form of a call"),
    }.get(situation.level, ("allow", "level", ""))
    return Judgement("allow", "level") if verdict == "allow" else Judgement(verdict, rule, why)


def _judge_echo(situation: Situation) -> list[Judgement]:
    where = situation.echo_source or "content of this conversation"
    if situation.echo == "exact":
        # Code and logs are full of calls that only read, and a person can tell whether this one was planted.
        is_read_only = situation.tool is not None and situation.tool.read_only
        return [Judgement("ask" if is_read_only else "refuse", "echo", f"the same call occurs in {where}")]
    if situation.echo == "similar":
        return [Judgement("ask", "echo_similar", f"a very similar call occurs in {where}")]
    return []
