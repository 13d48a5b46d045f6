"""The repair of tool calls inside the process, between the SDK of a vendor and its HTTP client."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, get_args
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from dragoman import formats, providers
from dragoman import wire as wires
from dragoman.client.detection import find_known_host
from dragoman.errors import ConfigError, nearest
from dragoman.extraction.leaks import TurnMemory
from dragoman.extraction.trust import PROFILES
from dragoman.integrations.relay import Asked, EndpointSender, Relay, Send
from dragoman.pipeline.exchange import Backend, Exchange
from dragoman.pipeline.report import Report
from dragoman.providers import Endpoint, Fact, Facts, MemoryFacts
from dragoman.providers.registry import shipped
from dragoman.secrets.exchanges import RequestRedactor
from dragoman.secrets.fields import is_secret_header
from dragoman.types import Failure, Request, ToolModeName, TrustName
from dragoman.wire import registry
from dragoman.wire.codec import Codec
from dragoman.wire.values import parse

_MOST_ENDPOINTS = 64
log = logging.getLogger("dragoman.integrations")
OnReport = Callable[[Report], object]


class Repair:
    """Repairs the tool calls of an endpoint for the SDK that asks it.

    The options are those of a route of the gateway. `client` and `async_client` return HTTP clients for an SDK, and
    `transport` and `async_transport` what a client of your own sends with. All of them share what is learned about
    endpoints.
    """

    def __init__(
        self,
        *,
        profile: TrustName = "compat",
        tool_mode: ToolModeName = "auto",
        repair_turns: int = 1,
        wire: str = "",
        format: str = "",
        context_window: int | None = None,
        facts: Facts | None = None,
        on_report: OnReport | None = None,
        telemetry: bool = False,
    ) -> None:
        """`profile` says how far calls in text are trusted. `repair_turns` are the times that a model is asked again
        after a reply that the program cannot use.

        `wire` is for endpoints whose paths do not tell it. `format` is the text format in which a model without native
        calls is asked to write them. `on_report` is called with the report of each exchange when it ends. `telemetry`
        makes an OpenTelemetry span for each.
        """
        if profile not in PROFILES:
            raise ConfigError(f"there is no trust profile {profile!r}", hint=f"choose {', '.join(PROFILES)}")
        if tool_mode not in get_args(ToolModeName):
            raise ConfigError(f"tool_mode is {tool_mode!r}", hint=f"choose {', '.join(get_args(ToolModeName))}")
        if format:
            formats.get(format)
        if repair_turns < 0:
            raise ConfigError(f"repair_turns is {repair_turns}", hint="0 is the least")
        if wire and not registry.knows(wire, installed=True):
            guess = nearest(wire, registry.names())
            hint = f"did you mean {guess!r}?" if guess else f"the wires are {', '.join(registry.names())}"
            raise ConfigError(f"there is no wire {wire!r}", hint=hint)
        self._profile: TrustName = profile
        self._tool_mode: ToolModeName = tool_mode
        self._repair_turns = repair_turns
        self._wire, self._format, self._window = wire, format, context_window
        self._facts = facts if facts is not None else MemoryFacts()
        self._on_report = on_report
        self.spans: Any = None
        if telemetry:
            from dragoman.telemetry.exchanges import Spans

            self.spans = Spans(kind="client")
        self._endpoints: dict[tuple[str, str, str], Endpoint] = {}
        self._codecs: dict[str, Codec] = {}
        self._secret = secrets.token_bytes(32)
        # Blocking SDKs are used by several threads, and each has its own conversations.
        self._of_thread = threading.local()

    # ---- for SDKs ---------------------------------------------------------------------------------------------------

    def client(self, inner: Any = None, *, library: str | None = None) -> Any:
        """Return a client of httpx2 or httpx for a blocking SDK.

        `inner` is a client or a transport that sends the requests, with its proxies and certificates. `library` is
        `httpx2` or `httpx`; without both, the one that is installed, httpx2 first.
        """
        from dragoman.integrations.http import open_client

        return open_client(self, inner, library, is_async=False)

    def async_client(self, inner: Any = None, *, library: str | None = None) -> Any:
        """Return a client of httpx2 or httpx for an asynchronous SDK. The arguments are those of `client`."""
        from dragoman.integrations.http import open_client

        return open_client(self, inner, library, is_async=True)

    def transport(self, inner: Any = None, *, library: str | None = None) -> Any:
        """Return a transport for a client of httpx2 or httpx that you make. The arguments are those of `client`."""
        from dragoman.integrations.http import open_transport

        return open_transport(self, inner, library, is_async=False)

    def async_transport(self, inner: Any = None, *, library: str | None = None) -> Any:
        """Return a transport for an asynchronous client. The arguments are those of `client`."""
        from dragoman.integrations.http import open_transport

        return open_transport(self, inner, library, is_async=True)

    # ---- for transports ---------------------------------------------------------------------------------------------

    def find_wire(self, method: str, url: str, headers: Mapping[str, str]) -> str:
        """Return the wire of a request that is repaired; empty for all other requests of an SDK."""
        if method != "POST" or "content-encoding" in headers:
            return ""
        parts = urlsplit(url)
        fitting = registry.match_path(parts.path)
        if self._wire:
            return self._wire if self._wire in fitting else ""
        if not fitting or not _is_meant(fitting[0], parts.path, headers):
            return ""
        if "mistral" in fitting and _is_mistral(parts.hostname or "", headers):
            return "mistral"
        return fitting[0]

    def open(self, wire: str, url: str, headers: Mapping[str, str], body: bytes, send: Send) -> Relay | None:
        """Return what answers a request; None if it is no request of this wire, and has to be sent as it is."""
        fields = parse(body)
        if not isinstance(fields, dict) or "functions" in fields:
            # `functions` is the predecessor of `tools`. Its clients expect replies in a form that no codec writes.
            return None
        parts = urlsplit(url)
        model, streams = registry.read_path(wire, parts.path)
        codec = self._codecs.get(wire)
        if codec is None:
            codec = self._codecs[wire] = wires.get(wire)
            codec.is_shared = True
        request = codec.decode_request(fields, model=model, stream=streams or None)
        if wire == "ollama" and "stream" not in fields:
            # The only wire that streams by default.
            request = replace(request, options={**request.options, "stream": True})
        report = Report(f"ex_{os.urandom(12).hex()}", wire, request.model)
        redactor = RequestRedactor(_find_secrets(headers))
        asked = Asked(codec, request, fields, parts.query, self._find_endpoint(wire, url, request.model), redactor)
        end_span = self.spans.start(report) if self.spans is not None else None

        def end() -> None:
            if end_span is not None:
                end_span()
            if self._on_report is not None:
                _tell(self._on_report, report)

        return Relay(asked, send, self._open_exchange, report, end)

    def _open_exchange(self, request: Request, sender: EndpointSender, report: Report, *, asks_again: bool) -> Exchange:
        turns = self._repair_turns if asks_again else 0
        backend = Backend(sender, self._tool_mode, self._profile, turns, _Learner(self))
        memory: TurnMemory | None = getattr(self._of_thread, "memory", None)
        if memory is None:
            memory = self._of_thread.memory = TurnMemory()
        return Exchange(request, [backend], report, secret=self._secret, memory=memory, watch=sender.note)

    def _find_endpoint(self, wire: str, url: str, model: str) -> Endpoint:
        """Return what is known of the endpoint at a URL, by its host and its model."""
        parts = urlsplit(url)
        key = (wire, parts.netloc, model)
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            if len(self._endpoints) >= _MOST_ENDPOINTS:
                self._endpoints.clear()
            base = urlunsplit((parts.scheme, parts.netloc, _base_path(wire, parts.path), "", ""))
            endpoint = self._endpoints[key] = self._resolve(wire, base, model)
        return endpoint

    def _resolve(self, wire: str, base: str, model: str) -> Endpoint:
        rows = shipped()
        known = find_known_host(rows, base)
        row = known[0] if known is not None and wire in known[0].wires else rows.get("custom")
        settings: dict[str, Any] = {"wire": wire, "base_url": base, "facts": self._facts}
        if self._window is not None:
            settings["quirks"] = {"context_window": self._window}
        endpoint = providers.resolve(row, model, **settings)
        fact = self._facts.get(endpoint.base_url, model)
        if endpoint.profile.native != "no" and (fact is None or fact.native_tool_calls is None):
            # The SDK offers native tools, so they are tried unless the model is known not to have any.
            endpoint = providers.resolve(row, model, **settings, capabilities={"native_tool_calls": True})
        if self._format:
            endpoint = replace(endpoint, profile=replace(endpoint.profile, prompt_format=self._format))
        return endpoint

    def learn(self, endpoint: Endpoint, fact: Fact) -> None:
        """Keep what an exchange found out about an endpoint, for the next ones."""
        known = self._facts.get(endpoint.base_url, endpoint.model) or Fact()
        self._facts.put(endpoint.base_url, endpoint.model, known | fact)
        self._endpoints.clear()


class _Learner:
    """Observes the requests of an exchange for the facts in their answers."""

    def __init__(self, repair: Repair) -> None:
        self._repair = repair

    def started(self) -> None: ...

    def ended(self, failure: Failure | None) -> None: ...

    def learned(self, endpoint: Endpoint, fact: Fact) -> None:
        self._repair.learn(endpoint, fact)


def _tell(listener: OnReport, report: Report) -> None:
    try:
        listener(report)
    except Exception:
        # The program that made the request waits for the reply, and not for the report.
        log.exception("on_report failed for %s", report.id)


def _is_meant(wire: str, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a path with the end of a wire is a request for a reply, and not one of another interface."""
    if wire == "anthropic":
        # The threads of OpenAI have messages too.
        return "anthropic-version" in headers
    # The first version of Cohere's interface is another wire.
    return wire != "cohere" or path.endswith("/v2/chat")


def _is_mistral(host: str, headers: Mapping[str, str]) -> bool:
    return host.endswith("mistral.ai") or headers.get("user-agent", "").lower().startswith("mistral")


def _base_path(wire: str, path: str) -> str:
    """Return the path of the base URL: the path of a request without its end."""
    codec = wires.get(wire)
    if codec.path and path.endswith(codec.path):
        return path.removesuffix(codec.path)
    return path.partition("/models/")[0]


def _find_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the keys in the headers of a request, without the word before them."""
    return [value.rpartition(" ")[2] for name, value in headers.items() if is_secret_header(name)]
