"""How patient a watcher is: when it warns, when it blocks, when it ends the run."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.errors import ConfigError

Action = Literal["warn", "block", "end"]


class Verdict(Struct, frozen=True):
    """What a watcher has to say of a call, a result or a turn.

    `warn`: the message is a note for the model, to be put behind the result. `block`: the call does not run, the
    message is its result. `end`: the run is over, the message says why. `kind` names the detector.
    """

    action: Action
    kind: str
    message: str


class Steps(Struct, frozen=True):
    """At which count a detector warns, blocks and ends the run; None leaves that step out."""

    warn: int | None
    block: int | None
    end: int | None

    def __post_init__(self) -> None:
        given = [step for step in (self.warn, self.block, self.end) if step is not None]
        if any(step < 2 for step in given) or given != sorted(given):
            raise ConfigError(
                f"the steps of a watcher are {given}",
                hint="they count from 2 up, in the order warn, block, end; None leaves a step out",
            )

    def blocks(self, count: int) -> bool:
        """Whether a call that would bring the count here is not to be run any more."""
        return self.block is not None and count >= self.block

    def ends(self, count: int) -> bool:
        return self.end is not None and count >= self.end

    def warns(self, count: int) -> bool:
        return self.warn is not None and count >= self.warn


class WatchSettings(Struct, frozen=True):
    """The settings of a watcher. A detector that is None is off; `WatchSettings.off()` switches all of them off."""

    repeats: Steps | None = Steps(3, 4, 5)
    """The same call with the same result, one after the other."""
    cycles: Steps | None = Steps(4, 5, 6)
    """Two or more calls that alternate, each with its own same result: full rounds."""
    same_results: Steps | None = Steps(5, 6, 7)
    """One tool that gives the same result whatever its arguments are."""
    failures: int | None = 3
    """One tool that fails with the same error: after so many in a row, calls that failed so are not run again."""
    idle_turns: int | None = 3
    """Turns in a row with the same calls, the same results and no new text."""
    window: int = 20
    """Successful calls that are remembered for `same_results`."""
    longest_cycle: int = 5
    """The most calls in one round of `cycles`."""
    exempt: tuple[str, ...] = ()
    """Names of tools that may repeat themselves, as those with `metadata={"polling": True}` may."""

    def __post_init__(self) -> None:
        counts = {"failures": self.failures, "idle_turns": self.idle_turns}
        for name, count in counts.items():
            if count is not None and count < 2:
                raise ConfigError(f"{name} of a watcher is {count}", hint="give 2 or more, or None to switch it off")
        if self.window < 1 or self.longest_cycle < 2:
            raise ConfigError(
                f"a watcher with window {self.window} and longest_cycle {self.longest_cycle}",
                hint="a window holds at least one call, a cycle at least two",
            )

    @classmethod
    def off(cls) -> WatchSettings:
        """Settings under which nothing is ever said."""
        return cls(repeats=None, cycles=None, same_results=None, failures=None, idle_turns=None)
