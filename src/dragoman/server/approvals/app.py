"""The server of approvals: pages for browsers with a cookie, and an API for programs with a key.

Nobody may answer without being known by name. A browser opens the one-time link of the terminal, or gives a key; a
program sends a key with every request. The keys are not those of the gateway, because agents have these: an agent must
not approve its own calls. So the API needs a key on this machine too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from dragoman.characters import escape_message
from dragoman.errors import ConfigError, DragomanError
from dragoman.server.access import Access, is_loopback
from dragoman.server.approvals import pages
from dragoman.server.approvals.requests import Choice, Outcome, PendingRequests, make_approval
from dragoman.server.asgi import (
    BodyTooLarge,
    BodyTooSlow,
    ClientDisconnected,
    HttpCall,
    Receive,
    Scope,
    Send,
    UnreadableBody,
    run_until_disconnect,
)
from dragoman.server.keys import KeyRing
from dragoman.server.settings import ServerSettings
from dragoman.server.web.answers import (
    PAGE_HEADERS,
    PAGE_METHODS,
    SECONDS_BETWEEN_BEATS,
    TEXT,
    answer_html,
    answer_static,
    answer_text,
    send_event,
    write_policy,
)
from dragoman.server.web.session import Sessions, Visitor
from dragoman.types import Failure

log = logging.getLogger("dragoman.server")

API = "/approvals"
KEYS_FILE = "approval-keys.json"
# A browser names the origin of a form only if the page lets it name its own pages.
_HEADERS = {**PAGE_HEADERS, "referrer-policy": "same-origin"}
_STATIC = frozenset({"approvals.js", "approvals.css"})
_MOST_OF_AN_ANSWER = 1024 * 1024
_BY_LINK = "Open the link that the terminal of the server shows. Each link works once."


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an answer. `digest` is the one of the request that the person has seen."""

    digest: str
    choice: Choice
    reason: str = ""
    result: str = ""
    token: str = ""


class _Unusable(Exception):
    """The body of an answer cannot be used."""


def open_access(settings: ServerSettings, keys: Path) -> Access:
    """Read the keys of the people. Raises a ConfigError if others reach the server and nobody has a key."""
    ring = KeyRing(keys)
    if not ring.keys and not is_loopback(settings.host):
        hint = "`dragoman approvals keys add NAME` makes one"
        raise ConfigError(f"at {settings.host} others reach the approvals, and nobody has a key", hint=hint)
    access = Access(settings, ring)
    access.needs_keys = True
    # These servers have no section in the settings, and pages of other origins never answer.
    access.service, access.to_add_a_name, access.to_add_an_origin = "server", "start it with --name", ""
    return access


class ApprovalServer:
    """An ASGI application with the pages and the API."""

    def __init__(
        self,
        pending: PendingRequests,
        settings: ServerSettings,
        access: Access,
        *,
        owner: str,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        """`owner` is the name of the person who opens the links of the terminal; `announce` shows them there."""
        self.settings = settings
        self.access = access
        self.loading: asyncio.Future[None] | None = None
        self.pending = pending
        self._is_near = is_loopback(settings.host)
        self.sessions = Sessions("approvals", "", announce if self._is_near else None, owner=owner)

    def open_pages(self, url: str) -> str:
        """Return the link for the owner; empty if others reach the server, where everybody needs a key."""
        self.sessions.address = url
        return self.sessions.link if self._is_near else ""

    def end(self) -> None:
        self.pending.end()

    def close(self) -> None:
        self.pending.close()

    async def refuse_excess(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer_text(HttpCall(scope, receive, send), 503, "The server has too many connections.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        call = HttpCall(scope, receive, send)
        is_api = call.path == API or call.path.startswith(f"{API}/")
        call.added = {**_HEADERS, "content-security-policy": write_policy("", "", "approvals")}
        try:
            await (self._serve_api(call) if is_api else self._serve_pages(call))
        except (BodyTooLarge, BodyTooSlow, UnreadableBody):
            await self._fail(call, is_api, 413, "The request is too large, too slow, or cannot be read.")
        except _Unusable as error:
            await self._fail(call, is_api, 400, str(error))
        except ClientDisconnected:
            return
        except asyncio.CancelledError:
            # The server ends.
            return
        except DragomanError as error:
            log.error("%s %s failed: %s", call.method, escape_message(call.path[:200]), error)
            await self._fail(call, is_api, 503, "The journal cannot be used now; the log of the server says why.")
        except Exception:
            log.exception("an error of the approvals")
            await self._fail(call, is_api, 500, "An error of the server itself; its log has the details.")

    async def _fail(self, call: HttpCall, is_api: bool, status: int, said: str) -> None:
        if call.has_begun:
            return
        if is_api:
            await call.answer_json(status, {"error": {"message": said}})
        else:
            await answer_text(call, status, said)

    def _log_refusal(self, call: HttpCall, failure: Failure) -> None:
        said = escape_message(failure.message)
        log.info("refused %s %s: %s", call.method, escape_message(call.path[:200]), said)

    # ---- the API -----------------------------------------------------------------------------------------------------

    async def _serve_api(self, call: HttpCall) -> None:
        permit = self.access.admit(call)
        if isinstance(permit, Failure):
            self._log_refusal(call, permit)
            await self._fail(call, True, permit.status or 403, permit.message)
            return
        try:
            await self._dispatch_api(call, permit.name)
        finally:
            permit.close()

    async def _dispatch_api(self, call: HttpCall, person: str) -> None:
        request_id = call.path.removeprefix(API).removeprefix("/")
        if call.method == "POST" and request_id:
            if call.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise _Unusable("the body is not JSON")
            try:
                answer = msgspec.json.decode(await call.read_body(_MOST_OF_AN_ANSWER), type=Answer)
            except msgspec.MsgspecError as error:
                raise _Unusable(f"the body is not an answer: {error}") from None
            done = await self._answer(request_id, answer, person)
            said = {"message": done.said} if done.status == 200 else {"error": {"message": done.said}}
            await call.answer_json(done.status, {**said, "request": done.data})
        elif call.method in ("GET", "HEAD") and not request_id:
            await call.answer_json(200, {"requests": await self.pending.list_open(with_changes=True)})
        elif call.method in ("GET", "HEAD"):
            found = await self.pending.find(request_id)
            if found is None:
                await self._fail(call, True, 404, "there is no open request with this id; it may be settled")
            else:
                await call.answer_json(200, found)
        else:
            await self._fail(call, True, 405, "use GET /approvals, GET /approvals/ID or POST /approvals/ID")

    async def _answer(self, request_id: str, answer: Answer, person: str) -> Outcome:
        if not answer.digest:
            raise _Unusable("an answer needs the digest of the request")
        if answer.choice == "answer" and not answer.result.strip():
            raise _Unusable("the answer is empty")
        approval = make_approval(answer.choice, answer.reason.strip(), answer.result)
        done = await self.pending.answer(request_id, answer.digest, approval, person)
        said = escape_message(done.said[:200])
        log.info("%s: %s by %s: %s", escape_message(request_id[:100]), answer.choice, escape_message(person), said)
        return done

    # ---- the pages ---------------------------------------------------------------------------------------------------

    async def _serve_pages(self, call: HttpCall) -> None:
        failure = self.access.check_page(call, PAGE_METHODS, from_elsewhere=not self._is_near)
        if failure is None and call.method == "POST" and not {"origin", "sec-fetch-site"} & call.headers.keys():
            # Every browser says where a form comes from.
            failure = Failure("unauthorized", "the request does not say which page it comes from", 403)
        if failure is not None:
            self._log_refusal(call, failure)
            await answer_text(call, failure.status or 403, failure.message)
            return
        assert call.added is not None
        call.added["content-security-policy"] = write_policy(call.headers["host"], "", "approvals")
        visitor = self._find_visitor(call)
        method = "GET" if call.method == "HEAD" else call.method
        if method == "GET" and call.path.startswith("/static/"):
            # The page of the login loads them too, and they say nothing about what waits.
            await answer_static(call, "", __package__, _STATIC)
        elif call.path == "/open":
            await self._open_session(call)
        elif (method, call.path) == ("POST", "/login"):
            await self._log_in(call)
        elif visitor is None:
            if method == "GET" and call.path == "/":
                self.sessions.renew()
            await self._ask_for_login(call, 401)
        else:
            await self._show(call, method, visitor)

    def _find_visitor(self, call: HttpCall) -> Visitor | None:
        visitor = self.sessions.find(call)
        if visitor is not None and visitor.key and self.access.find_digest(visitor.key) is None:
            # The key was revoked or has expired since.
            self.sessions.forget(visitor)
            return None
        return visitor

    async def _ask_for_login(self, call: HttpCall, status: int, said: str = "") -> None:
        content = pages.write_login(said, is_near=self._is_near)
        await answer_html(call, pages.write_page("Log in", content), status)

    async def _open_session(self, call: HttpCall) -> None:
        cookie = self.sessions.open(call) if self._is_near else None
        if cookie is None:
            if call.method == "GET":
                self.sessions.renew()
            await answer_text(call, 403, f"This link was used before. {_BY_LINK}")
        else:
            await self._enter(call, cookie)

    async def _log_in(self, call: HttpCall) -> None:
        key = _read_form(await call.read_body(_MOST_OF_AN_ANSWER)).get("key", "").strip()
        found = self.access.find_key(key) if key else None
        if found is None:
            await self._ask_for_login(call, 401, "This key is not known here.")
        else:
            await self._enter(call, self.sessions.enter(call, found.name, found.digest))

    async def _enter(self, call: HttpCall, cookie: str) -> None:
        await call.answer(303, b"", {"location": "/", "set-cookie": cookie}, kind=TEXT)

    async def _show(self, call: HttpCall, method: str, visitor: Visitor) -> None:
        request_id = call.path.removeprefix("/requests/") if call.path.startswith("/requests/") else ""
        if (method, call.path) == ("GET", "/"):
            await self._show_list(call, visitor)
        elif (method, call.path) == ("GET", "/rows"):
            listed = await self.pending.list_open()
            rows = pages.write_rows(listed, self.pending.clock())
            await call.answer_json(200, {"rows": str(rows), "count": pages.say_count(len(listed))})
        elif (method, call.path) == ("GET", "/events"):
            await self._stream(call)
        elif method == "GET" and request_id:
            await self._show_request(call, visitor, request_id)
        elif method == "POST" and request_id:
            await self._take_answer(call, visitor, request_id)
        else:
            await answer_text(call, 404, "There is no such page.")

    async def _show_list(self, call: HttpCall, visitor: Visitor) -> None:
        listed = await self.pending.list_open()
        content = pages.write_requests(listed, pages.write_welcome(not listed), self.pending.clock())
        await answer_html(call, pages.write_page("Requests", content, visitor.name))

    async def _show_request(
        self, call: HttpCall, visitor: Visitor, request_id: str, problem: str = "", status: int = 200
    ) -> None:
        data = await self.pending.find(request_id)
        if data is None:
            gone = await self.pending.explain(request_id)
            await self._show_notice(call, visitor, "No longer open", problem or gone.said, max(status, gone.status))
            return
        token = self.sessions.sign(visitor, request_id, data["digest"])
        detail = pages.write_detail(data, token, self.pending.clock(), problem)
        if "part" in parse_qs(call.query, keep_blank_values=True):
            await answer_html(call, detail, status)
            return
        content = pages.write_requests(await self.pending.list_open(), detail, self.pending.clock(), request_id)
        await answer_html(call, pages.write_page(data["tool"][:80], content, visitor.name), status)

    async def _show_notice(self, call: HttpCall, visitor: Visitor, title: str, said: str, status: int) -> None:
        content = pages.write_notice(title, said)
        if "part" not in parse_qs(call.query, keep_blank_values=True):
            listed = await self.pending.list_open()
            # A narrow screen shows one thing at a time: first what became of the answer.
            content = pages.write_requests(listed, content, self.pending.clock(), "-")
            content = pages.write_page(title, content, visitor.name)
        await answer_html(call, content, status)

    async def _take_answer(self, call: HttpCall, visitor: Visitor, request_id: str) -> None:
        fields: dict[str, Any] = _read_form(await call.read_body(_MOST_OF_AN_ANSWER))
        try:
            answer = msgspec.convert(fields, Answer)
        except msgspec.ValidationError as error:
            raise _Unusable(f"the form is not an answer: {error}") from None
        if not self.sessions.is_signed(answer.token, visitor, request_id, answer.digest):
            log.info("refused an answer to %s: its form was not shown", escape_message(request_id[:100]))
            await self._show_request(call, visitor, request_id, "This page is too old. Read it again.", 403)
            return
        done = await self._answer(request_id, answer, visitor.name)
        if done.status != 200:
            await self._show_request(call, visitor, request_id, f"Your answer does not count: {done.said}.", 409)
        else:
            await self._show_notice(call, visitor, done.said.capitalize(), _say_next(done), 200)

    async def _stream(self, call: HttpCall) -> None:
        """Say whenever the list has changed, until the browser leaves."""
        event = self.pending.watch() if call.method == "GET" else None
        if event is None:
            await answer_text(call, 503, "Too many pages are open.")
            return
        try:
            await call.begin(200, {"content-type": "text/event-stream", "x-accel-buffering": "no"})
            await call.send(b"retry: 1000\nevent: ready\ndata: {}\n\n")
            await run_until_disconnect(call, self._send_changes(call, event))
        finally:
            self.pending.leave(event)

    async def _send_changes(self, call: HttpCall, event: asyncio.Event) -> None:
        while not self.pending.is_over:
            try:
                await asyncio.wait_for(event.wait(), SECONDS_BETWEEN_BEATS)
            except TimeoutError:
                await call.send(b": alive\n\n")
                continue
            event.clear()
            await send_event(call, "changed", {})
        await call.send(b"", more=False)


def _read_form(body: bytes) -> dict[str, str]:
    """Return the fields of a form. A field that is there twice is not accepted."""
    try:
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise _Unusable("the form cannot be read") from None
    if any(len(values) != 1 for values in found.values()):
        raise _Unusable("a field of the form is there more than once")
    # A browser sends each line break as two characters.
    return {name: values[0].replace("\r\n", "\n") for name, values in found.items()}


def _say_next(done: Outcome) -> str:
    data = done.data or {}
    return (
        f"{data.get('tool', 'The call')} in {data.get('run_id', 'its run')}. A worker continues the run; "
        f"one of `dragoman run` continues with `dragoman run --resume {data.get('run_id', 'ID')}`."
    )
