"""A consultation of the doctor: who is examined, how it is shown, and what is kept of it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console

from dragoman.cli.exits import FATAL, SIGNALLED
from dragoman.cli.interrupting import Interrupts
from dragoman.cli.screen import Screen, write_json
from dragoman.cli.waiting import Waiting
from dragoman.client.auth import choose_auth
from dragoman.client.client import open_transport
from dragoman.client.keys import find_key
from dragoman.client.transport import HttpRequest, Timeouts, Transport, TransportFault
from dragoman.config import keys_by_variable, load
from dragoman.config.state import FileFacts, learned_file
from dragoman.doctor import (
    Asker,
    Finding,
    ProbeStarted,
    Recognised,
    Report,
    admit,
    choose_model,
    count_requests,
    examine,
    fetch,
    read_models,
    recognise,
)
from dragoman.doctor.metadata import lookups_for
from dragoman.errors import ConfigError
from dragoman.providers import Endpoint
from dragoman.secrets.exchanges import RequestRedactor

UNANSWERED = 4
_STYLES = {"works": "green", "broken": "bold red", "absent": "yellow", "unknown": "dim"}
_NO_TARGET = "name one: dragoman doctor provider:model, or dragoman doctor http://127.0.0.1:8080"


class Wish(Struct, frozen=True, kw_only=True):
    """What stands on the command line."""

    target: str = ""
    model: str = ""
    base_url: str = ""
    wire: str = ""
    key: str = ""
    quick: bool = False
    tokens: int = 1024
    seconds: float = 120.0
    saves: bool = True
    forgets: bool = False
    as_json: bool = False


class Consultation:
    """One call of the command, from its arguments to its exit code."""

    def __init__(self, wish: Wish, environment: Mapping[str, str]) -> None:
        self.wish = wish
        self.config = load(environment=environment)
        self.warnings = list(self.config.warnings)
        self.registry = self.config.registry()
        keys = keys_by_variable(self.config, self.registry, environment, self.warnings)
        self._environment = {**environment, **keys}
        path = learned_file(environment)
        self._facts = FileFacts(path, "doctor") if path is not None else None
        self._screen = Screen()
        self._waiting = Waiting(Console(stderr=True, highlight=False), shown=not wish.as_json)
        self.report: Report | None = None

    def hold(self) -> int:
        """Examine and show; the exit code."""
        with asyncio.Runner() as runner:
            return runner.run(self._hold())

    async def _hold(self) -> int:
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._work())

        def end() -> None:
            work.cancel()

        with Interrupts(loop, end, self._waiting.hide) as interrupts:
            try:
                return await work
            except asyncio.CancelledError:
                print("interrupted; nothing was kept", file=sys.stderr)
                return SIGNALLED + (interrupts.caught or signal.SIGINT)
            finally:
                self._waiting.hide()

    async def _work(self) -> int:
        endpoint = await self._find()
        if self.wish.forgets:
            return self._forget(endpoint)
        patient = admit(endpoint, quick=self.wish.quick, tokens=self.wish.tokens)
        if not self.wish.as_json:
            name = f"{endpoint.provider.name}:{endpoint.model}"
            self._screen.line((name, "bold"), f" at {RequestRedactor().address(endpoint.base_url)} ({endpoint.wire})")
            most = count_requests(patient)
            self._screen.line(f"at most {most} requests of at most {self.wish.tokens} tokens each")
            self._screen.line()
        carrier = self._open(endpoint)
        asker = Asker(
            patient.endpoint,
            transport=carrier,
            key=self.wish.key or None,
            environment=self._environment,
            timeouts=self.config.timeouts,
            tokens=self.wish.tokens,
            seconds=self.wish.seconds,
        )
        try:
            async for step in examine(patient, asker, self.config.prices()):
                self._take(step)
        finally:
            await asker.close()
            await carrier.close()
        return self._conclude(endpoint)

    def _open(self, endpoint: Endpoint) -> Transport:
        if endpoint.provider.transport or not self.config["proxy"]:
            return open_transport(endpoint)
        from dragoman.client.http import HttpTransport

        return HttpTransport(proxy=self.config["proxy"], environment=self._environment)

    # ---- who ---------------------------------------------------------------------------------------------------------

    async def _find(self) -> Endpoint:
        """The endpoint that is meant. Nothing that was learned before counts: it is learned anew."""
        wish = self.wish
        target = wish.target or ("" if wish.base_url else self.config["model"] or "")
        if not target and wish.base_url:
            target = wish.base_url
        if not target:
            raise ConfigError("there is nobody to examine", hint=_NO_TARGET)
        if "://" in target:
            return await self._find_by_address(target)
        settings: dict[str, Any] = {"wire": wish.wire, "base_url": wish.base_url}
        provider, _, model = target.partition(":")
        model = wish.model or model
        row = self.registry.get(provider.partition("@")[0])
        if not model and not row.model:
            model = await self._first_model(self.registry.resolve(provider, "", **settings))
        return self.registry.resolve(f"{provider}:{model or row.model}", **settings)

    async def _find_by_address(self, url: str) -> Endpoint:
        async def look(address: str) -> Any:
            return await self._look(self.registry.resolve("custom", self.wish.model, base_url=url), address)

        self._waiting.show(f"who is at {url}?")
        found = await recognise(url, look)
        model = self.wish.model or self._choose(found)
        wire = self.wish.wire or found.wire
        return self.registry.resolve(found.provider, model, base_url=found.base_url, wire=wire)

    def _choose(self, found: Recognised) -> str:
        model = choose_model(list(found.models))
        if not model:
            raise ConfigError(f"{found.base_url} lists no model", hint="load one, or name it with --model NAME")
        if len(found.models) > 1:
            print(f"{len(found.models)} models are there; --model names another than {model}", file=sys.stderr)
        return model

    async def _first_model(self, endpoint: Endpoint) -> str:
        for lookup in lookups_for(endpoint, endpoint.base_url):
            if lookup.kind == "models":
                listed = read_models(await self._look(endpoint, lookup.url)) or []
                return self._choose(Recognised(endpoint.provider.name, endpoint.base_url, models=tuple(listed)))
        raise ConfigError(f"{endpoint.provider.name} lists no models", hint="name one: dragoman doctor PROVIDER:MODEL")

    async def _look(self, endpoint: Endpoint, url: str) -> Any:
        transport = self._open(endpoint)
        try:
            key = find_key(endpoint, self.wish.key or None, None, self._environment)
            auth = choose_auth(endpoint, key, self._environment)
            signed = await auth.sign(HttpRequest("GET", url, {"Accept": "application/json"}))
            return await fetch(transport, signed, Timeouts(connect=5.0, first_byte=15.0, idle=15.0))
        except TransportFault as fault:
            if fault.kind == "unreachable":
                raise ConfigError(
                    f"nobody answers at {url}: {fault.message}", hint="start the server, or check the address"
                ) from None
            return None
        finally:
            await transport.close()

    # ---- showing -----------------------------------------------------------------------------------------------------

    def _take(self, step: ProbeStarted | Finding | Report) -> None:
        if isinstance(step, ProbeStarted):
            self._waiting.show(f"{step.title} …")
        elif isinstance(step, Report):
            self.report = step
        elif not self.wish.as_json:
            with self._waiting.paused():
                self._draw(step)

    def _draw(self, finding: Finding) -> None:
        name = finding.probe.replace("_", " ")
        style = _STYLES[finding.verdict]
        self._screen.line("  ", (f"{finding.verdict:8}", style), f" {name:21}", finding.summary)
        if finding.verdict in ("broken", "absent") and finding.evidence:
            self._screen.line(" " * 32, (finding.evidence, "dim"))
        if finding.fix:
            self._screen.line(" " * 32, ("fix: ", "bold"), finding.fix)

    def _conclude(self, endpoint: Endpoint) -> int:
        report = self.report
        assert report is not None
        reached = report.verdict("reachable") == "works"
        kept = reached and self._save(endpoint, report)
        if self.wish.as_json:
            write_json(_as_data(report, str(self._facts.path) if kept and self._facts is not None else None))
        else:
            self._say_result(report, reached=reached, kept=kept)
        if not reached:
            return UNANSWERED
        return FATAL if report.faults else 0

    def _say_result(self, report: Report, *, reached: bool, kept: bool) -> None:
        count = len(report.faults)
        spent = f"{report.requests} requests, {report.usage.input_tokens} tokens in, {report.usage.output_tokens} out"
        cost = f", about ${report.cost:.4f}" if report.cost else ""
        faults = (
            "nothing is broken" if not count else "1 thing is broken" if count == 1 else f"{count} things are broken"
        )
        self._waiting.hide()
        self._screen.line()
        self._screen.line((faults if reached else "it did not answer", "bold"), f" ({spent}{cost})")
        if kept and self._facts is not None:
            self._screen.line(f"kept in {self._facts.path}; dragoman run and dragoman chat go by it")
        if reached and (self.wish.base_url or "://" in self.wish.target):
            self._screen.line(f'next: dragoman run -m {report.model} --base-url {report.url} "Hello"')

    # ---- keeping -----------------------------------------------------------------------------------------------------

    def _save(self, endpoint: Endpoint, report: Report) -> bool:
        if not self.wish.saves or self._facts is None:
            return False
        self._facts.put(endpoint.base_url, endpoint.model, report.fact)
        for problem in self._facts.problems:
            print(f"warning: {problem}", file=sys.stderr)
        return not self._facts.problems

    def _forget(self, endpoint: Endpoint) -> int:
        known = self._facts is not None and self._facts.forget(endpoint.base_url, endpoint.model)
        name = f"{endpoint.provider.name}:{endpoint.model} at {endpoint.base_url}"
        self._screen.line(f"forgotten: {name}" if known else f"nothing was known of {name}")
        return 0


def _as_data(report: Report, path: str | None) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(report)
    data["faults"] = [finding.probe for finding in report.faults]
    data["saved"] = path
    return data
