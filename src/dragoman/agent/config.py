"""The configuration of one run. It does not change during the run."""

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
    """The mode and the rules that decide on calls."""
    rules_above: tuple[Rules, ...] = ()
    """The rules of the parent runs, for a run that a tool started. The child run cannot loosen any of them."""
    policy: Policy | None = None
    """The developer's policies. They can only make the rules stricter."""
    sandboxed: bool = False
    """Whether commands run in a sandbox that passed its check. It is checked only if a mode depends on it."""
    tool_mode: ToolModeName = "auto"
    text_calls: bool = True
    """Whether calls in text count."""
    trust: str | Profile = "default"
    options: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    watch: WatchSettings = WatchSettings()
    has_approver: bool = False
    has_reviewers: bool = False
    """Whether hooks see every call before it runs."""
    search: Tool | None = None
    """The tool that finds deferred tools, one of `tools`; None if there cannot be any."""
    answer: Tool | None = None
    """The tool that receives a structured answer. Its one parameter is `answer`."""
    validates: bool = False
    """Whether validators see an answer before the run ends with it."""
    nonce: bool = False
    """In text mode, instruct the model to use a wrapper with a random nonce for every request."""
    window: int | None = None
    """The context window of the model in tokens; None if it is unknown."""
    context: ContextSettings = ContextSettings()
    fallbacks: tuple[Endpoint, ...] = ()
    """The endpoints that replace an endpoint that fails before it sends anything."""
    price: Callable[[Usage, Endpoint, str], float | None] = _no_price
    """The cost of a reply of a model at an endpoint."""
    resettle: Callable[[Endpoint, Fact], Endpoint] | None = None
    """Return the endpoint with a new fact about it applied."""
    seed: bytes = b""
    """The seed of all nonces of the run. With the same seed a replay gives the same requests."""
    chosen_mode: ToolMode | None = None
    """The tool mode, if it is already chosen: it is the same for every run of an agent."""
    run_id: str = ""
    session: str | None = None


class SeededNonces:
    """Nonces from a seed. They cannot be guessed, and the same seed gives the same nonces."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0

    def next(self) -> str:
        """Return the next nonce."""
        self._count += 1
        digest = hashlib.blake2b(self._count.to_bytes(8, "big"), key=self._seed[:64], digest_size=9).digest()
        return base64.urlsafe_b64encode(digest).decode().replace("-", "x").replace("_", "y")
