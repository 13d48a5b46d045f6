"""The decided values of one run. Nothing in here changes while it runs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from dragoman.agent.context import ContextSettings
from dragoman.agent.result import Limits
from dragoman.agent.watch import WatchSettings
from dragoman.extraction.tool_mode import ToolMode
from dragoman.extraction.trust import Profile
from dragoman.policy import Policy, Rules
from dragoman.providers import Endpoint, Fact
from dragoman.toolset import Toolset
from dragoman.types import Tool, ToolModeName, Usage


def _no_price(usage: Usage, endpoint: Endpoint, model: str) -> float | None:
    return None


class RunConfig(Struct, frozen=True):
    """The settings of one run."""

    endpoint: Endpoint
    tools: Toolset
    limits: Limits = Limits()
    rules: Rules = Rules()
    """The mode and the rules by which calls are decided."""
    rules_above: tuple[Rules, ...] = ()
    """Those of the runs above, for a run that a tool started: none of them is ever loosened below."""
    policy: Policy | None = None
    """What the developer adds to the rules; it can only make them stricter."""
    sandboxed: bool = False
    """Whether commands run in a sandbox that was seen to work; found out only where a mode relies on it."""
    tool_mode: ToolModeName = "auto"
    trust: str | Profile = "default"
    options: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    watch: WatchSettings = WatchSettings()
    has_approver: bool = False
    has_reviewers: bool = False
    """Whether hooks want to see every call before it runs."""
    answer: Tool | None = None
    """The tool through which a structured answer is given; its one parameter is `answer`."""
    nonce: bool = False
    """In text mode, teach a wrapper with a random word for every request."""
    window: int | None = None
    """Tokens that the model's context holds; None where it is not known."""
    context: ContextSettings = ContextSettings()
    fallbacks: tuple[Endpoint, ...] = ()
    """Who is asked when the endpoint fails before it has said anything."""
    price: Callable[[Usage, Endpoint, str], float | None] = _no_price
    """What a reply of a model at an endpoint cost."""
    resettle: Callable[[Endpoint, Fact], Endpoint] | None = None
    """An endpoint as it is spoken to after this was learned of it."""
    seed: bytes = b""
    """The source of all random words of the run, so that it can be brought back exactly."""
    chosen_mode: ToolMode | None = None
    """How the endpoint is spoken to, where that was settled before: it is the same for every run of an agent."""
    run_id: str = ""
    session: str | None = None


class SeededNonces:
    """Random words from a seed: nobody can guess them, and the same seed gives the same ones."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0

    def next(self) -> str:
        """The next word."""
        self._count += 1
        digest = hashlib.blake2b(self._count.to_bytes(8, "big"), key=self._seed[:64], digest_size=9).digest()
        return base64.urlsafe_b64encode(digest).decode().replace("-", "x").replace("_", "y")
