"""Which endpoint answers a request: patterns of model names, slots, balance, cool-down and fallbacks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from fnmatch import translate

from msgspec import Struct
from msgspec.structs import replace

from dragoman import providers
from dragoman.client.client import Client, shared_transport
from dragoman.client.retry import Breakers
from dragoman.client.transport import Transport
from dragoman.errors import ConfigError, UnknownModel
from dragoman.pipeline import Backend
from dragoman.providers import Endpoint, Fact, Facts, MemoryFacts
from dragoman.server.models import ModelEntry
from dragoman.server.settings import EndpointSettings, GatewaySettings, RouteSettings, as_list, named_endpoints
from dragoman.types import FAILURE_CAUSES, Failure, Image, Request, ToolResult

_is_small = re.compile(r"haiku|mini|nano|flash-lite|small|lite\b", re.IGNORECASE).search
"""Names of models that agent programs use for work in the background."""
_CHARACTERS_PER_TOKEN = 4
_MOST_CLIENTS = 64


class Target:
    """One endpoint of a gateway, with its load and its health. It observes its requests."""

    def __init__(self, name: str, row: EndpointSettings, router: Router) -> None:
        self.name = name
        self.settings = row
        self.endpoint = find_endpoint(row, "", router.facts)
        self.busy = 0
        self.resting_until = 0.0
        self._router = router
        self._clients: dict[str, Client] = {}

    @property
    def takes_any_model(self) -> bool:
        """Whether the client chooses the model."""
        return not self.endpoint.model

    def client_for(self, model: str) -> Client:
        """Return the client for a model. The model decides on the profile of an endpoint, so each has its own."""
        name = model if self.takes_any_model else self.endpoint.model
        client = self._clients.get(name)
        if client is None:
            if len(self._clients) >= _MOST_CLIENTS:
                self._clients.clear()
            row = self.settings
            endpoint = find_endpoint(row, name, self._router.facts)
            client = self._clients[name] = self._router.open_client(endpoint, row)
        return client

    def forget(self) -> None:
        """Open the clients again with the next request, because there are new facts."""
        self._clients.clear()

    # ---- as the observer of its requests ----------------------------------------------------------------------------

    def started(self) -> None:
        self.busy += 1

    def ended(self, failure: Failure | None) -> None:
        self.busy -= 1
        if failure is not None and FAILURE_CAUSES.get(failure.kind) in ("outage", "rate", "endpoint"):
            self._router.rest(self)

    def learned(self, endpoint: Endpoint, fact: Fact) -> None:
        facts = self._router.facts
        facts.put(endpoint.base_url, endpoint.model, (facts.get(endpoint.base_url, endpoint.model) or Fact()) | fact)
        self.forget()


class Route(Struct, frozen=True):
    """A row of the routes, with its endpoints."""

    settings: RouteSettings
    targets: dict[str, Target]
    patterns: tuple[re.Pattern[str], ...]

    def matches(self, model: str) -> bool:
        return any(pattern.match(model) for pattern in self.patterns)

    def pick(self, names: Sequence[str], now: float) -> list[Target]:
        """Return the endpoints in the order of their use: rested and least busy first."""
        chosen = [self.targets[name] for name in names]
        return sorted(chosen, key=lambda target: (target.resting_until > now, target.busy))


class Chosen(Struct, frozen=True):
    """The endpoints for one request, in the order in which they are tried, and the slot that decided."""

    route: Route
    targets: list[Target]
    model: str
    slot: str = ""

    def backends(self) -> list[Backend]:
        """Return how each endpoint is asked."""
        settings = self.route.settings
        trust = "compat" if settings.profile == "passthrough" else settings.profile
        return [
            Backend(
                target.client_for(self.model),
                target.settings.tool_mode,
                trust,
                settings.repair_turns,
                target.settings.context_window,
                target,
            )
            for target in self.targets
        ]


class Router:
    """Chooses endpoints for requests."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        transport: Transport | None = None,
        facts: Facts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.facts = facts if facts is not None else MemoryFacts()
        self._clock = clock
        self._transport = transport
        self._breakers = Breakers()
        self.targets: dict[str, Target] = {}
        self.routes = [self._open_route(row) for row in settings.routes]

    def _open_route(self, row: RouteSettings) -> Route:
        targets = {name: self._open_target(name) for name in named_endpoints(row)}
        patterns = tuple(re.compile(translate(pattern), re.IGNORECASE) for pattern in as_list(row.match))
        return Route(row, targets, patterns)

    def _open_target(self, name: str) -> Target:
        if name not in self.targets:
            row = self.settings.endpoints.get(name) or EndpointSettings(model=name)
            self.targets[name] = Target(name, row, self)
        return self.targets[name]

    def open_client(self, endpoint: Endpoint, row: EndpointSettings) -> Client:
        """Return a client for an endpoint. All of them share the connections."""
        own = endpoint.provider.transport
        transport = shared_transport(endpoint) if own or self._transport is None else self._transport
        return Client(endpoint, transport=transport, key=row.key or None, headers=row.headers, breakers=self._breakers)

    def choose(self, request: Request, size: int = 0) -> Chosen:
        """Return the endpoints for a request. `size` is the size of its body in bytes. Raises UnknownModel."""
        model = self.settings.aliases.get(request.model, request.model)
        route = next((route for route in self.routes if route.matches(model)), None)
        if route is None:
            raise UnknownModel(model, self.names())
        slot = find_slot(route.settings, request, size)
        first = as_list(getattr(route.settings, slot)) if slot else []
        now = self._clock()
        targets = route.pick(first or as_list(route.settings.to), now)
        rest = [route.targets[name] for name in as_list(route.settings.fallback)]
        return Chosen(route, list(dict.fromkeys([*targets, *rest])), model, slot)

    def rest(self, target: Target) -> None:
        """Avoid an endpoint for a while, because it failed."""
        target.resting_until = self._clock() + self.settings.gateway.cool_down

    def resting(self) -> list[str]:
        """Return the names of the endpoints that failed a short time ago."""
        now = self._clock()
        return [target.name for target in self.targets.values() if target.resting_until > now]

    def models(self) -> list[ModelEntry]:
        """Return the models that a client can ask for."""
        windows = {target.endpoint.model: target.settings.context_window for target in self.targets.values()}
        listed = {name: ModelEntry(name, windows.get(name)) for name in self.names()}
        return list(listed.values())

    def names(self) -> list[str]:
        """Return the model names that a client can ask for, without patterns."""
        plain = [name for route in self.routes for name in as_list(route.settings.match) if not set(name) & set("*?[")]
        own = [target.endpoint.model for target in self.targets.values() if target.endpoint.model]
        return list(dict.fromkeys([*self.settings.aliases, *plain, *own]))


def find_endpoint(row: EndpointSettings, model: str = "", facts: Facts | None = None) -> Endpoint:
    """Return the endpoint of a row for a model. Raises a ConfigError that says what is missing."""
    if not row.url:
        if not row.model:
            raise ConfigError("an endpoint has neither a model nor a URL", hint='set model = "provider:model"')
        return providers.resolve(row.model, facts=facts)
    settings = {"wire": row.wire} if row.wire else {}
    endpoint = providers.resolve("custom", row.model or model, base_url=row.url, facts=facts, **settings)
    return endpoint if not row.key_env else replace(endpoint, provider=replace(endpoint.provider, key=(row.key_env,)))


def find_slot(row: RouteSettings, request: Request, size: int) -> str:
    """Return the slot of a route that a request belongs to; empty for the endpoints of the route itself."""
    if row.images and _has_image(request):
        return "images"
    if row.long_context and size > row.long_context_tokens * _CHARACTERS_PER_TOKEN:
        return "long_context"
    if row.background and _is_small(request.model):
        return "background"
    reasoning = request.options.get("reasoning")
    if row.thinking and isinstance(reasoning, dict) and reasoning.get("enabled") is not False:
        return "thinking"
    return ""


def _has_image(request: Request) -> bool:
    return any(
        isinstance(part, Image)
        or (isinstance(part, ToolResult) and not isinstance(part.content, str) and _holds_image(part))
        for message in request.messages
        for part in message.parts
    )


def _holds_image(result: ToolResult) -> bool:
    return any(isinstance(part, Image) for part in result.content)
