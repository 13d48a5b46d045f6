"""The pages of the inspector in a real browser: mouse, keys, narrow screens, and hostile output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.server import processes
from tests.server.browsers import Page, browsing
from tests.server.test_browser import Attacker, web_server

from dragoman.testing import Upstream
from dragoman.types import Failure

CALL = '<tool_call>\n{"name": "save", "arguments": {"note": "milk", "copies": "2",}}\n</tool_call>'
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202egnp"
TEXTS = {
    "alpha": f"I save it.\n\n{CALL}",
    "beta": f"{HOSTILE} and no call",
    "gamma": Failure("bad_request", "the endpoint says no", 400),
    "delta": f"<think>I could write {CALL}</think>It is done.",
}
SHOWN = "document.querySelector('[data-exchange]')?.dataset.exchange"


@contextmanager
def inspected(folder: Path) -> Iterator[tuple[processes.Running, Page]]:
    """A gateway with exchanges of each kind, and a browser with its cookie."""
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream([*TEXTS.values(), *[TEXTS["alpha"]] * 6]))
        gateway = stack.enter_context(processes.serving(folder, upstream.url, "--inspector"))
        page = stack.enter_context(browsing(folder))
        page.show(1280, 900, "light")
        page.open(gateway.said["inspector"])
        assert "No exchanges yet" in page.evaluate("document.querySelector('#main').innerText")
        send(gateway, "alpha")
        wait_for_rows(page, 1)
        assert "No exchanges yet" not in page.evaluate("document.querySelector('#main').innerText")
        yield gateway, page
        assert page.errors == [], "the page broke its own policy, or has an error"


def send(gateway: processes.Running, *texts: str) -> None:
    for text in texts:
        asyncio.run(processes.exchange(gateway.port, processes.write_request("openai_chat", text)))


def wait_for_rows(page: Page, count: int) -> None:
    page.wait(f"document.querySelectorAll('#rows li').length === {count} && !document.querySelector('.state.running')")


def count_rows(page: Page, words: str = "") -> int:
    texts: list[str] = page.evaluate("[...document.querySelectorAll('#rows li')].map(row => row.textContent)")
    return sum(words in text for text in texts)


def read_from_another_port(gateway: processes.Running, page: Page, id: str) -> list[str]:
    """What a page of this machine reads, which is of the same site: the browser has the cookie, and sends it."""
    paths = ("", "/rows", "/events", f"/exchanges/{id}", f"/exchanges/{id}/test", "/static/inspector.js")
    script = """(async () => {
        const seen = [];
        for (const url of %s) for (const mode of ["cors", "no-cors"]) for (const method of ["GET", "POST"]) try {
            const answer = await fetch(url, {mode, method, credentials: "include"});
            seen.push(await answer.text());
        } catch { }
        return seen.filter(Boolean);
    })()"""
    with web_server(Attacker()) as port:
        page.open(f"http://127.0.0.1:{port}/start")
        seen: list[str] = page.evaluate(script % json.dumps([f"{gateway.url}/inspector{path}" for path in paths]))
        log = gateway.log.read_text(encoding="utf-8")
        assert all(f"refused {verb} /inspector{path}:" in log for verb in ("GET", "POST") for path in paths), log
    page.errors.clear()
    return seen


@pytest.mark.needs("chromium")
def test_the_list_an_exchange_the_filters_and_a_replay_work_in_a_browser(tmp_path: Path) -> None:
    with inspected(tmp_path) as (gateway, page):
        # New exchanges appear without a reload.
        page.evaluate("void (window.mine = true)")
        send(gateway, "beta", "gamma", "delta")
        wait_for_rows(page, 4)
        assert page.evaluate("window.mine") and count_rows(page, "repaired") == 1 and count_rows(page, "failed") == 1
        # An exchange, and the mark of its call.
        page.evaluate("document.querySelector('#rows li:last-child a').click()")
        page.wait(f"{SHOWN} && document.querySelector('mark.call')")
        marked = page.evaluate("document.querySelector('mark.call').textContent")
        assert '"copies": "2",}}' in marked and "call save" in marked
        assert page.evaluate("location.pathname").startswith("/inspector/exchanges/ex_")
        assert "trailing_comma" in page.evaluate("document.querySelector('#main').innerText")
        assert page.evaluate("document.querySelectorAll('#rows [aria-current]').length") == 1
        assert page.evaluate("[...document.querySelectorAll('[id]')].every(e => e === document.getElementById(e.id))")
        # A replay of the reply with another trust profile.
        page.evaluate("document.querySelector('#replay-trust').value = 'strict'")
        page.evaluate("document.querySelector('#replay-form button').click()")
        page.wait("document.querySelector('#replay-result .verdict')")
        assert "ask" in page.evaluate("document.querySelector('#replay-result').innerText")
        # A replay at the endpoint becomes an exchange of its own, and is shown.
        before = page.evaluate(SHOWN)
        page.evaluate("document.querySelector('#replay-endpoint').value = 'e'")
        page.evaluate("document.querySelector('#replay-form button').click()")
        page.wait(f"{SHOWN} !== '{before}' && document.querySelector('#main').innerText.includes('Replay of')")
        wait_for_rows(page, 5)
        # The filters and the search.
        for place, count in ((2, 1), (3, 1), (1, 2), (0, 5)):
            page.evaluate(f"document.querySelectorAll('#search input[name=show]')[{place}].click()")
            wait_for_rows(page, count)
        page.evaluate("document.querySelector('#q').focus()")
        page.write("endpoint says no")
        wait_for_rows(page, 1)
        assert "1 exchange, with" in page.evaluate("document.querySelector('#count').textContent")
        # Rows that do not fit are not added.
        send(gateway, "alpha")
        page.evaluate("document.querySelector('#q').value = ''; document.querySelector('#search').requestSubmit()")
        wait_for_rows(page, 6)
        # Nothing that the model wrote has become a part of the page.
        page.evaluate("[...document.querySelectorAll('#rows li')].at(-2).querySelector('a').click()")
        page.wait("document.querySelector('#main')?.innerText.includes('and no call')")
        assert page.evaluate("document.querySelector('#main img, #main script')") is None
        assert "owned" not in page.evaluate("document.title")
        assert "\\u202egnp" in page.evaluate("document.querySelector('pre.reply').textContent")


@pytest.mark.needs("chromium")
def test_the_inspector_works_with_keys_alone(tmp_path: Path) -> None:
    with inspected(tmp_path) as (gateway, page):
        send(gateway, "beta", "gamma", "delta")
        wait_for_rows(page, 4)
        page.press("j")
        page.wait(SHOWN)
        first = page.evaluate(SHOWN)
        page.press("j")
        page.wait(f"{SHOWN} !== '{first}'")
        page.press("k")
        page.wait(f"{SHOWN} === '{first}'")
        # Down to the exchange with the call, and to its mark.
        for _ in range(3):
            before = page.evaluate(SHOWN)
            page.press("j")
            page.wait(f"{SHOWN} !== '{before}'")
        page.press("n")
        page.wait("document.activeElement.matches('mark.call')")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", "no visible focus"
        # A copy: without a permission for the clipboard, the text is shown and selected.
        page.press("c")
        page.wait("document.querySelector('#copy').open || document.querySelector('[data-copied]')")
        page.press("Escape")
        page.wait("!document.querySelector('dialog[open]')")
        # Back to the list, and the filters.
        page.press("Escape")
        page.wait("document.activeElement.closest('#rows li')")
        page.press("4")
        wait_for_rows(page, 1)
        page.press("1")
        wait_for_rows(page, 4)
        page.press("/")
        page.wait("document.activeElement.id === 'q'")
        page.write("alpha")
        wait_for_rows(page, 1)
        # Keys are letters in a field.
        page.press("p")
        assert page.evaluate("document.body.dataset.page") == "exchanges"
        page.press("Escape")
        # The replay by Tab and Enter.
        page.press("r")
        page.wait("document.activeElement.id === 'replay-endpoint'")
        page.press("Tab", "Tab", "Tab")
        page.wait("document.activeElement.matches('#replay-form button')")
        page.press("Enter")
        page.wait("document.querySelector('#replay-result .verdict')")
        # Help, and no single keys.
        page.press("?")
        page.wait("document.querySelector('#keys').open")
        page.evaluate("document.querySelector('#single-keys').focus()")
        page.press(" ", "Escape")
        page.wait("!document.querySelector('#keys').open")
        page.press("p")
        assert page.evaluate("document.body.dataset.page") == "exchanges"
        page.evaluate("document.querySelector('#single-keys').click()")
        page.press("p")
        page.wait("document.body?.dataset.page === 'playground' && document.readyState === 'complete'")


@pytest.mark.needs("chromium")
def test_the_playground_reads_while_somebody_types_and_pages_fit_on_narrow_screens(tmp_path: Path) -> None:
    with inspected(tmp_path) as (gateway, page):
        send(gateway, "beta", "gamma", "delta")
        wait_for_rows(page, 4)
        ids = page.evaluate("[...document.querySelectorAll('#rows li')].map(row => row.dataset.id)")
        page.open(f"{gateway.url}/inspector/playground")
        result = "document.querySelector('#play-result').innerText"
        page.wait(f"{result}.includes('1 call')")
        page.evaluate("document.querySelector('#play-text').select()")
        page.write("I would write weather(city='Rome') here, as an example. " + HOSTILE)
        page.wait(f"{result}.includes('1 not passed on') && document.querySelector('mark.suspect')")
        page.evaluate("document.querySelector('#play-trust').value = 'compat'")
        page.evaluate("document.querySelector('#play-piece').value = '4'")
        page.evaluate("document.querySelector('#play').dispatchEvent(new Event('input'))")
        page.wait(f"{result}.includes('1 call') && {result}.includes('the same result as the whole text')")
        assert page.evaluate("document.querySelector('#play-result img, #play-result script')") is None
        page.evaluate("document.querySelector('#play-tools').select()")
        page.write("{")
        page.wait(f"{result}.includes('the tools are not JSON')")
        # The answer 400 is also a line in the console of the browser.
        page.errors.clear()
        for scheme in ("light", "dark"):
            page.show(390, 800, scheme)
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (dark == "rgb(20, 23, 30)") is (scheme == "dark")
            for path in ("", "/playground", *(f"/exchanges/{id}" for id in ids)):
                page.open(f"{gateway.url}/inspector{path}")
                assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            # One thing at a time: the exchange, and a way back.
            assert page.evaluate("getComputedStyle(document.querySelector('.list')).display") == "none"
            assert page.evaluate("getComputedStyle(document.querySelector('.back')).display") == "block"
        unnamed = "[...document.querySelectorAll('input, select, textarea')].filter(field => !field.labels?.length"
        unnamed += " && !field.getAttribute('aria-labelledby')).map(field => field.id)"
        assert page.evaluate(unnamed) == []
        assert page.evaluate("['header', 'nav', 'main', 'footer'].every(name => document.querySelector(name))")
        assert read_from_another_port(gateway, page, ids[0]) == []
        # Another browser window without the cookie, and the used link, get nothing.
        assert processes.get(gateway.port, "/inspector").status == 401
        link = gateway.said["inspector"].removeprefix(gateway.url)
        assert processes.get(gateway.port, link).status == 403
