"""Approvals over HTTP: what people see, who may answer, one answer for one digest, and runs that go on after it."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.engine.conftest import _collect_connections as _collect_connections
from tests.postgres import PostgresServer
from tests.postgres import postgres as postgres
from tests.server import processes
from tests.server.browsers import browsing
from tests.server.test_browser import Attacker, web_server

import dragoman
from dragoman import builtin
from dragoman.agent import Agent, Connection, Safety
from dragoman.agent.approvals import ApprovalRequest, list_requests
from dragoman.agent.records import encode
from dragoman.engine import PostgresEngine
from dragoman.errors import ConfigError
from dragoman.journal import Entry, Journal, SqliteJournal, open_journal
from dragoman.journal.audit import AuditLog
from dragoman.journal.verification import read_records, verify
from dragoman.secrets import HumanSink
from dragoman.server.approvals.app import ApprovalServer, open_access
from dragoman.server.approvals.requests import PendingRequests
from dragoman.server.keys import add_key, revoke_key
from dragoman.server.settings import ServerSettings
from dragoman.testing import ScriptedModel
from dragoman.types import Request, ToolCall, ToolResult

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202egnp"
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 2


# ---- runs that wait --------------------------------------------------------------------------------------------------


def make_agent(calls: Sequence[tuple[str, dict[str, Any]]], journal: Any, workspace: Path, **more: Any) -> Agent[Any]:
    """An agent whose model makes these calls one after the other, and whose calls wait for approval."""

    def say(request: Request) -> Any:
        parts = [part for message in request.messages for part in message.parts]
        results = [part for part in parts if isinstance(part, ToolResult)]
        if len(results) < len(calls):
            return [ToolCall(f"call_{len(results)}", *calls[len(results)])]
        return " ".join(str(result.content) for result in results)

    @dragoman.tool(requires_approval=True)
    async def pay(note: str) -> str:
        """Pay a bill."""
        with (workspace / "ledger").open("a", encoding="utf-8") as file:
            file.write(f"{note}\n")
        return f"paid {note}"

    model = ScriptedModel(say, loop=True)
    safety = Safety(defer_approvals=True, workspace=str(workspace))
    tools = [pay, builtin.Write, builtin.AskUser]
    given = {"journal": journal} if journal is not None else {}
    return Agent(
        model.endpoint(),
        tools,
        ask=["ask_user"],
        name="clerk",
        connection=Connection(transport=model),
        safety=safety,
        **given,
        **more,
    )


def leave_waiting(journal: Path, workspace: Path, tool: str = "pay", **arguments: Any) -> str:
    """A run that waits for the approval of one call. Returns its id."""
    agent = make_agent([(tool, arguments)], journal, workspace)
    done = agent.run("Do it.")
    assert done.outcome.kind == "awaiting_approval", done
    return done.run_id


def resume(journal: Path, workspace: Path, run_id: str, tool: str, **arguments: Any) -> str:
    return make_agent([(tool, arguments)], journal, workspace).resume(run_id).text


def waiting(journal: Path) -> list[ApprovalRequest]:
    async def work() -> list[ApprovalRequest]:
        with SqliteJournal(str(journal)) as store:
            return await list_requests(store)

    return asyncio.run(work())


# ---- clients ---------------------------------------------------------------------------------------------------------


class Client:
    """Programs and browsers of one server."""

    def __init__(self, running: processes.Running, keys: dict[str, str]) -> None:
        self.running = running
        self.keys = keys
        self.host = f"127.0.0.1:{running.port}"

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=60)
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, {name.lower(): value for name, value in answer.headers.items()}

    def api(self, path: str = "", person: str = "anna", value: Any = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {self.keys[person]}"}
        if value is None:
            status, text, _ = self.ask(f"/approvals{path}", headers=headers)
        else:
            headers["content-type"] = "application/json"
            status, text, _ = self.ask(f"/approvals{path}", "POST", json.dumps(value), headers)
        return status, json.loads(text)

    def log_in(self, person: str = "") -> str:
        """The cookie of a browser that opened the link, or gave a key."""
        if person:
            status, _, headers = self.send_form("/login", {"key": self.keys[person]}, "")
        else:
            status, _, headers = self.ask(self.running.said["link"].removeprefix(self.running.url))
        assert status == 303, status
        assert "HttpOnly; SameSite=Strict" in headers["set-cookie"]
        return headers["set-cookie"].partition(";")[0]

    def send_form(
        self, path: str, fields: Mapping[str, str], cookie: str, **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        own = {"origin": f"http://{self.host}", "content-type": "application/x-www-form-urlencoded", "cookie": cookie}
        return self.ask(path, "POST", urlencode(fields), own | headers)

    def read_form(self, request_id: str, cookie: str) -> dict[str, str]:
        """The hidden fields of the forms of a request."""
        status, text, _ = self.ask(f"/requests/{request_id}", headers={"cookie": cookie})
        assert status == 200, text
        return dict(re.findall(r'name="(digest|token)" value="(\w+)"', text))


@contextmanager
def serving(folder: Path, place: Path | str, *people: str, name: str = "approvals") -> Iterator[Client]:
    """Run `dragoman approvals serve`, with a key for each person."""
    file = folder / "people.json"
    known = {person: add_key(file, person) for person in people}
    command = [sys.executable, "-m", "dragoman", "approvals", "serve", "--journal", str(place), "--keys", str(file)]
    state = {"XDG_STATE_HOME": str(folder), "HOME": str(folder), "OPENAI_API_KEY": SECRET}
    with processes.started([*command, "--port", "0", "--json"], folder / f"{name}.log", state) as running:
        yield Client(running, known)


# ---- tests -----------------------------------------------------------------------------------------------------------


def test_a_request_is_shown_completely_and_an_answer_is_for_its_digest_once(tmp_path: Path) -> None:
    journal, target = tmp_path / "runs.db", tmp_path / "notes.txt"
    target.write_text("one\ntwo\n", encoding="utf-8")
    change = {"path": "notes.txt", "content": f"one\n2 {HOSTILE}\n{SECRET}\n"}
    run_id = leave_waiting(journal, tmp_path, "write", **change)
    paid = leave_waiting(journal, tmp_path, note="rent")
    with serving(tmp_path, journal, "anna", "ben") as client:
        # The API: the same data as the command line, without secrets.
        status, listed = client.api()
        write, pay = listed["requests"]
        assert status == 200 and (write["run_id"], write["agent"], write["tool"]) == (run_id, "clerk", "write")
        assert write["task"] == "Do it." and write["model"] and "+one" not in write["change"]["lines"]
        assert "-two" in write["change"]["lines"] and SECRET not in json.dumps(listed)
        assert client.api(f"/{write['id']}") == (200, write)
        # The page: a diff, inert, without secrets.
        cookie = client.log_in()
        _, page, headers = client.ask(f"/requests/{write['id']}", headers={"cookie": cookie})
        assert '<span class="removed">-two\n</span>' in page and "&lt;img src=x" in page and "\\u202egnp" in page
        assert "<img" not in page and SECRET not in page and page.count("<script") == 1 and "style=" not in page
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        # Answers that do not count: another digest, none, another request's form, a form of somebody else.
        right = {"digest": write["digest"], "choice": "approve"}
        refused = [
            ({**right, "digest": "0" * 64}, 409, "not what was shown"),
            ({**right, "digest": pay["digest"]}, 409, "not what was shown"),
            ({**right, "digest": ""}, 400, "digest"),
            ({"choice": "approve"}, 400, "digest"),
            ({**right, "choice": "allow"}, 400, "choice"),
            ({**right, "choice": "answer"}, 400, "empty"),
            ({**right, "rule": "write(*)"}, 400, "rule"),
        ]
        for value, wanted, said in refused:
            status, answer = client.api(f"/{write['id']}", value=value)
            assert status == wanted and said in answer["error"]["message"], (value, answer)
        assert client.api("/apr_unknown", value=right)[0] == 404
        form, other = client.read_form(write["id"], cookie), client.read_form(pay["id"], cookie)
        bens = client.log_in("ben")
        forged = [
            (cookie, {**form, "digest": pay["digest"]}),
            (cookie, other),
            (cookie, {"digest": form["digest"], "token": ""}),
            (bens, form),
        ]
        for sent, fields in forged:
            assert client.send_form(f"/requests/{write['id']}", {**fields, "choice": "approve"}, sent)[0] == 403, fields
        assert [each.answer for each in waiting(journal)] == [None, None]
        # The first answer counts; the second is told whose it was, before and after the run used it.
        status, page, _ = client.send_form(f"/requests/{write['id']}", {**form, "choice": "approve"}, cookie)
        assert status == 200 and "Approved by" in page
        said = client.api(f"/{write['id']}", "ben", right)[1]
        assert "has already approved" in said["error"]["message"] and said["request"]["answered"]["by"]
        denial = {**client.read_form(pay["id"], bens), "choice": "deny", "reason": f"not now {HOSTILE}"}
        assert client.send_form(f"/requests/{pay['id']}", denial, bens)[0] == 200
        assert "wrote" in resume(journal, tmp_path, run_id, "write", **change).lower()
        assert "not now" in resume(journal, tmp_path, paid, "pay", note="rent")
        status, answer = client.api(f"/{pay['id']}", value={"digest": pay["digest"], "choice": "approve"})
        assert status == 409 and "ben has already denied it" in answer["error"]["message"]
        assert client.api() == (200, {"requests": []})
        page = client.ask(f"/requests/{pay['id']}", headers={"cookie": bens})[1]
        assert "ben has already denied it" in page
    assert SECRET in target.read_text(encoding="utf-8") and not (tmp_path / "ledger").exists()
    log = tmp_path / "audit.jsonl"
    assert verify(log).ok
    given = [record for record in read_records(log) if record["kind"] == "approval_given"]
    assert [(record["verdict"], record["request"]) for record in given] == [
        ("approved", write["id"]),
        ("denied", pay["id"]),
    ]
    assert given[1]["by"] == "ben" and given[0]["by"] == given[0]["user"]


def test_a_question_is_answered_in_words_and_the_run_goes_on(tmp_path: Path) -> None:
    journal, asked = tmp_path / "runs.db", {"question": "Which one?", "choices": ["the red one", HOSTILE]}
    run_id = leave_waiting(journal, tmp_path, "ask_user", **asked)
    with serving(tmp_path, journal, "anna") as client:
        cookie = client.log_in("anna")
        (request,) = client.api()[1]["requests"]
        page = client.ask(f"/requests/{request['id']}", headers={"cookie": cookie})[1]
        assert "Which one?" in page and 'value="the red one"' in page and 'id="approve"' not in page
        fields = {**client.read_form(request["id"], cookie), "choice": "answer", "result": "the blue\r\none"}
        assert "Answered by anna" in client.send_form(f"/requests/{request['id']}", fields, cookie)[1]
    assert resume(journal, tmp_path, run_id, "ask_user", **asked) == "the blue\none"


def test_two_people_race_and_exactly_one_of_them_wins(tmp_path: Path) -> None:
    journal = tmp_path / "runs.db"
    runs = [leave_waiting(journal, tmp_path, note=str(number)) for number in range(6)]
    people = ("anna", "ben", "cara", "dora")
    with ExitStack() as stack:
        first = stack.enter_context(serving(tmp_path, journal, *people))
        second = stack.enter_context(serving(tmp_path, journal, name="second"))
        second.keys = first.keys
        requests = first.api()[1]["requests"]
        assert len(requests) == len(runs)
        pool = stack.enter_context(ThreadPoolExecutor(len(people)))
        barrier = threading.Barrier(len(people))

        def answer(request: dict[str, Any], place: int) -> tuple[int, Any]:
            client = (first, second)[place % 2]
            value = {"digest": request["digest"], "choice": ("approve", "deny")[place // 2]}
            barrier.wait(60)
            return client.api(f"/{request['id']}", people[place], value)

        for request in requests:
            done = list(pool.map(answer, [request] * len(people), range(len(people))))
            winners = [person for person, (status, _) in zip(people, done, strict=True) if status == 200]
            losers = [said for status, said in done if status != 200]
            assert len(winners) == 1 and all(status in (200, 409) for status, _ in done), done
            # Everybody else learns who it was.
            assert all(f"{winners[0]} has already" in said["error"]["message"] for said in losers), (winners, losers)
            stored = next(each for each in waiting(journal) if each.id == request["id"])
            assert stored.answer is not None and stored.answer.by == winners[0]
            assert (stored.answer.request, stored.answer.digest) == (request["id"], request["digest"])
    given = [record for record in read_records(tmp_path / "audit.jsonl") if record["kind"] == "approval_given"]
    assert len(given) == len(runs)


def test_another_origin_another_name_and_a_stranger_get_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "runs.db"
    leave_waiting(journal, tmp_path, note="milk")
    with serving(tmp_path, journal, "anna") as client:
        (request,) = client.api()[1]["requests"]
        cookie = client.log_in()
        form = {**client.read_form(request["id"], cookie), "choice": "approve"}
        foreign: list[dict[str, str]] = [
            {"origin": "https://attacker.example"},
            {"origin": "null"},
            {"origin": f"https://{client.host}"},
            {"origin": f"http://localhost:{client.running.port}"},
            {"origin": "http://127.0.0.1:1"},
            {"sec-fetch-site": "same-site"},
            {"sec-fetch-site": "cross-site"},
            {"host": f"attacker.example:{client.running.port}"},
            {"host": "attacker.example", "origin": "http://attacker.example"},
        ]
        leaks = []
        key = {"authorization": f"Bearer {client.keys['anna']}"}
        paths = ("/", "/rows", "/events", f"/requests/{request['id']}", "/static/approvals.js", "/open?token=x")
        for headers in foreign:
            # A page of this name that has the key may use the API, like every program.
            is_own = headers.get("origin") == f"https://{client.host}"
            for path in (*paths, *(() if is_own else ("/approvals", f"/approvals/{request['id']}"))):
                sent = {"cookie": cookie, **(key if path.startswith("/approvals") else {}), **headers}
                status, text, given = client.ask(path, headers=sent)
                allowed = [name for name in given if name.startswith("access-control")]
                # The section [gateway] of the settings does not change this server.
                assert "gateway" not in text or path.startswith("/static/"), text
                if status != 403 or allowed or "milk" in text or request["id"] in text:
                    leaks.append((headers, path, status))
            if client.send_form(f"/requests/{request['id']}", form, cookie, **headers)[0] != 403:
                leaks.append((headers, "answer", 0))
        # Without the cookie and without a key, with a wrong one of each, and with the cookie in place of a key.
        wrong = cookie.partition("=")[0] + "=" + "x" * 43
        for sent in ({}, {"cookie": wrong}, {"cookie": cookie, "authorization": "Bearer sk-dragoman-x"}):
            for path in ("/approvals", f"/approvals/{request['id']}"):
                leaks += [(sent, path, 0)] if client.ask(path, headers=sent)[0] != 401 else []
        for path in ("/", "/rows", "/events", f"/requests/{request['id']}"):
            for sent in ({}, {"cookie": wrong}):
                status, text, _ = client.ask(path, headers=sent)
                leaks += [(sent, path, status)] if status != 401 or "milk" in text else []
        # A program that found the cookie, but sends no page, and a link that was used.
        bare = {"cookie": cookie, "content-type": "application/x-www-form-urlencoded"}
        assert client.ask(f"/requests/{request['id']}", "POST", urlencode(form), bare)[0] == 403
        assert client.ask(client.running.said["link"].removeprefix(client.running.url))[0] == 403
        assert client.send_form("/login", {"key": "sk-dragoman-x"}, "")[0] == 401
        assert leaks == [] and waiting(journal)[0].answer is None
        # A key that is revoked ends the sessions that it opened.
        annas = client.log_in("anna")
        assert client.ask("/", headers={"cookie": annas})[0] == 200
        revoke_key(tmp_path / "people.json", "anna")
        assert client.ask("/", headers={"cookie": annas})[0] == 401
        assert client.api()[0] == 401 and client.ask("/", headers={"cookie": cookie})[0] == 200
        # Two fields of one name, and bytes that are no form.
        for body in ("choice=deny&choice=approve", "\x00", "choice"):
            status = client.ask(
                f"/requests/{request['id']}", "POST", body, {**bare, "origin": f"http://{client.host}"}
            )[0]
            assert status == 400, body


def test_elsewhere_everybody_needs_a_key_and_a_proxy_may_add_tls(tmp_path: Path) -> None:
    journal, keys = tmp_path / "runs.db", tmp_path / "people.json"
    leave_waiting(journal, tmp_path, note="milk")
    settings = ServerSettings(host="0.0.0.0", hosts=["approvals.example"])
    with pytest.raises(ConfigError, match="nobody has a key"):
        open_access(settings, keys)
    key = add_key(keys, "anna")

    async def ask(
        app: ApprovalServer, path: str, method: str = "GET", body: bytes = b"", **headers: str
    ) -> tuple[int, bytes, dict[bytes, bytes]]:
        sent: list[Any] = []
        pairs = {"host": "approvals.example", **{name.replace("_", "-"): value for name, value in headers.items()}}
        place, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": place, "query_string": query.encode()}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in pairs.items()]

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])

    async def work() -> None:
        links: list[str] = []
        sink = HumanSink()
        pending = PendingRequests(SqliteJournal(str(journal)), AuditLog(tmp_path / "audit.jsonl"), sink)
        app = ApprovalServer(pending, settings, open_access(settings, keys), owner="root", announce=links.append)
        # There is no link, and none is announced: whoever reads the log must not become the owner.
        assert app.open_pages("http://0.0.0.0:1") == ""
        token = app.sessions.link.rpartition("=")[2]
        assert [(await ask(app, path))[0] for path in ("/", "/rows", f"/open?token={token}")] == [401, 401, 403]
        assert links == []
        # The page of a proxy with TLS, and of none.
        for origin, secure in (("https://approvals.example", True), ("http://approvals.example", False)):
            status, _, headers = await ask(app, "/login", "POST", urlencode({"key": key}).encode(), origin=origin)
            assert status == 303 and (b"Secure" in headers[b"set-cookie"]) is secure
            cookie = headers[b"set-cookie"].partition(b";")[0].decode()
            status, page, headers = await ask(app, "/", cookie=cookie)
            assert status == 200 and b"milk" in page and b"as <strong>anna" in page
            assert b"script-src approvals.example/static/;" in headers[b"content-security-policy"]
        for host, origin in (("attacker.example", ""), ("approvals.example", "https://attacker.example")):
            given = {"origin": origin} if origin else {}
            assert (await ask(app, "/", cookie=cookie, host=host, **given))[0] == 403, (host, origin)
        pending.close()

    asyncio.run(work())


def test_a_request_that_the_run_made_anew_is_not_answered_by_the_old_page(tmp_path: Path) -> None:
    journal, target = tmp_path / "runs.db", tmp_path / "notes.txt"
    target.write_text("one\n", encoding="utf-8")
    change = {"path": "notes.txt", "content": "two\n"}
    run_id = leave_waiting(journal, tmp_path, "write", **change)
    with serving(tmp_path, journal, "anna") as client:
        cookie, annas = client.log_in(), client.log_in("anna")
        (old,) = client.api()[1]["requests"]
        first, form = ({**client.read_form(old["id"], each), "choice": "approve"} for each in (cookie, annas))
        # The file changes, so the diff on the screen is no longer what would happen: the run asks again.
        target.write_text("another\n", encoding="utf-8")
        assert "changed since" in client.api(f"/{old['id']}")[1]["change"]["note"]
        assert client.send_form(f"/requests/{old['id']}", first, cookie)[0] == 200
        assert make_agent([("write", change)], journal, tmp_path).resume(run_id).outcome.kind == "awaiting_approval"
        status, page, _ = client.send_form(f"/requests/{old['id']}", form, annas)
        (new,) = client.api()[1]["requests"]
        assert status == 409 and "the run asks again" in page and new["id"] in page and new["id"] != old["id"]
        # The same id with another digest, as a journal of another program could have it.
        _replace_request(journal, run_id, new["id"])
        value = {"digest": new["digest"], "choice": "approve"}
        status, answer = client.api(f"/{new['id']}", value=value)
        assert status == 409 and "not what was shown" in answer["error"]["message"]
    assert waiting(journal)[0].answer is None and target.read_text(encoding="utf-8") == "another\n"


def _replace_request(journal: Path, run_id: str, request_id: str) -> None:
    from msgspec.structs import replace

    async def work() -> None:
        with SqliteJournal(str(journal)) as store:
            (request,) = await list_requests(store)
            token = await store.claim(run_id)
            body = encode(replace(request, digest="1" * 64))
            await store.append(run_id, [Entry("asked", body, request.call.id)], token=token)
            await store.release(run_id, token=token)

    asyncio.run(work())


def test_a_run_of_workers_goes_on_after_the_answer(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_database()

    async def work() -> None:
        engine = PostgresEngine(url, lease_seconds=3.0)
        agent = make_agent([("pay", {"note": "rent"})], None, tmp_path)
        stop = asyncio.Event()
        worker = asyncio.create_task(engine.work({"clerk": agent}, stop))
        try:
            while not engine.is_working:
                await asyncio.sleep(0.02)
            run_id = await engine.submit("clerk", "Pay it.")
            assert (await engine.wait(run_id)).state == "waiting"
            with serving(tmp_path, url, "anna") as client:
                (request,) = (await asyncio.to_thread(client.api))[1]["requests"]
                assert (request["run_id"], request["agent"]) == (run_id, "clerk")
                value = {"digest": request["digest"], "choice": "approve"}
                status, said = await asyncio.to_thread(client.api, f"/{request['id']}", "anna", value)
                assert status == 200 and said["request"]["answered"]["by"] == "anna"
                while (found := await engine.wait(run_id)).state == "waiting":
                    await asyncio.sleep(0.05)
                assert found.state == "ended", found
                status, said = await asyncio.to_thread(client.api, f"/{request['id']}", "anna", value)
                assert status == 409 and "anna has already approved it" in said["error"]["message"]
        finally:
            stop.set()
            await worker
            await engine.close()

    asyncio.run(work())
    assert (tmp_path / "ledger").read_text(encoding="utf-8") == "rent\n"
    assert len(_answers(url)) == 1


def _answers(place: str) -> list[Any]:
    async def work() -> list[Any]:
        journal: Journal | None = open_journal(place)
        assert journal is not None
        try:
            runs = await journal.runs()
            return [each for run in runs for each in await journal.read(run.run_id) if each.kind == "answered"]
        finally:
            journal.close()

    return asyncio.run(work())


@pytest.mark.needs("chromium")
def test_the_pages_work_in_a_browser_and_a_page_of_another_port_reads_nothing(tmp_path: Path) -> None:
    journal, target = tmp_path / "runs.db", tmp_path / "notes.txt"
    target.write_text("one\n", encoding="utf-8")
    run_id = leave_waiting(journal, tmp_path, "write", path="notes.txt", content=f"two {HOSTILE}\n")
    with serving(tmp_path, journal, "anna") as client, browsing(tmp_path) as page:
        page.show(390, 800, "dark")
        page.open(client.running.said["link"])
        page.wait("document.querySelectorAll('#rows li').length === 1")
        # A further request appears without a reload.
        page.evaluate("void (window.mine = true)")
        leave_waiting(journal, tmp_path, note="rent")
        page.wait("document.querySelectorAll('#rows li').length === 2 && window.mine")
        page.press("j")
        page.wait("document.querySelector('pre.diff')")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it does not fit a narrow screen"
        assert page.evaluate("getComputedStyle(document.querySelector('pre.diff .removed')).backgroundColor") not in (
            "rgba(0, 0, 0, 0)",
            "transparent",
        )
        assert page.evaluate("document.querySelector('#main img, #main script')") is None
        assert "owned" not in page.evaluate("document.title")
        # Somebody else answers the other one meanwhile; this page stays.
        second = client.api()[1]["requests"][1]
        assert client.api(f"/{second['id']}", value={"digest": second["digest"], "choice": "deny"})[0] == 200
        page.wait("document.querySelectorAll('#rows li').length === 1 && document.querySelector('.ways')")
        # A page of another port of this machine is of the same site, and its browser has the cookie.
        own = page.evaluate("location.href")
        first = client.api()[1]["requests"][0]
        fields = urlencode({"digest": first["digest"], "choice": "approve", "token": "x"})
        script = """(async () => {
            const seen = [];
            for (const url of %s) for (const mode of ["cors", "no-cors"]) for (const method of ["GET", "POST"]) try {
                const body = method === "POST" ? new URLSearchParams("%s") : undefined;
                const answer = await fetch(url, {mode, method, body, credentials: "include"});
                seen.push(await answer.text());
            } catch { }
            return seen.filter(Boolean);
        })()"""
        urls = [f"{client.running.url}{path}" for path in ("/", "/rows", f"/requests/{first['id']}", "/approvals")]
        with web_server(Attacker()) as port:
            page.open(f"http://127.0.0.1:{port}/start")
            assert page.evaluate(script % (json.dumps(urls), fields)) == []
        page.errors.clear()
        # Keys alone: the focus goes to the button, and Enter presses it.
        page.open(own)
        page.press("a")
        page.wait("document.activeElement.id === 'approve'")
        page.press("Enter")
        page.wait("document.querySelector('.notice')?.innerText.includes('Approved by')")
        assert page.errors == [], "the page broke its own policy, or has an error"
    resume(journal, tmp_path, run_id, "write", path="notes.txt", content=f"two {HOSTILE}\n")
    assert target.read_text(encoding="utf-8") == f"two {HOSTILE}\n"
