"""A budget that runs share by its tag: tokens, dollars and requests, of any agents and in any threads."""

from __future__ import annotations

from threading import Lock

from dragoman.errors import ConfigError
from dragoman.replies import add_usage
from dragoman.types import Usage


class Budget:
    """Tokens, dollars and requests that runs share, of any agents and in any threads.

    `tag` names the budget in messages. A run checks the budget before each request, so runs at the same time may exceed
    it by one reply each. A resumed run adds only what it uses from then on. `Limits(budget=...)` takes a budget.
    """

    def __init__(
        self, tag: str, *, tokens: int | None = None, cost: float | None = None, turns: int | None = None
    ) -> None:
        for name, value in (("tokens", tokens), ("cost", cost), ("turns", turns)):
            if value is not None and value <= 0:
                raise ConfigError(f"budget {tag!r}: {name} must be more than 0", hint="None means no limit")
        self.tag = tag
        self.tokens, self.cost, self.turns = tokens, cost, turns
        self._lock = Lock()
        self._usage, self._spent, self._asked = Usage(), 0.0, 0
        self._has_price = True

    def __repr__(self) -> str:
        return f"<budget {self.tag}: {self.spent_tokens} tokens, {self._spent:.4f} dollars, {self._asked} requests>"

    @property
    def usage(self) -> Usage:
        """The tokens that all runs have used so far."""
        return self._usage

    @property
    def spent(self) -> float | None:
        """The dollars that all runs have spent so far; None if the price of a model was unknown."""
        return self._spent if self._has_price else None

    @property
    def requests(self) -> int:
        """The requests of all runs so far."""
        return self._asked

    @property
    def spent_tokens(self) -> int:
        """The input and output tokens spent so far."""
        return self._usage.input_tokens + self._usage.output_tokens

    def add(self, usage: Usage, cost: float | None, turns: int = 0) -> None:
        """Add what a run has used."""
        with self._lock:
            self._usage = add_usage(self._usage, usage)
            self._spent += cost or 0.0
            self._has_price = self._has_price and cost is not None
            self._asked += turns

    def exceeded(self) -> tuple[str, str] | None:
        """Return the kind of limit that is reached, and its message."""
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return "token_limit", f"the budget {self.tag!r} of {self.tokens} tokens is used up"
        if self.cost is not None and not self._has_price:
            return "cost_limit", f"the budget {self.tag!r} has a limit of dollars, but the price of a model is unknown"
        if self.cost is not None and self._spent >= self.cost:
            return "cost_limit", f"the budget {self.tag!r} of {self.cost:g} dollars is used up"
        if self.turns is not None and self._asked >= self.turns:
            return "turn_limit", f"the budget {self.tag!r} of {self.turns} requests is used up"
        return None
