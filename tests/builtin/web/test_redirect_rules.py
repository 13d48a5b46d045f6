"""Redirects on the same host: the rules decide on every target as on a call of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.builtin.web.websites import fetcher, redirect, reply, site
from tests.tables import each_row

from dragoman.agent import Connection, Safety
from dragoman.agent.agent import Agent
from dragoman.policy import Decision
from dragoman.testing import ScriptedModel, call

START = "/docs/a"
FOLLOWED, TOLD, REFUSED = "there", "needs a decision of its own", "is not fetched"


def walk(location: str, *, safety: dict[str, Any], hops: tuple[str, ...] = ()) -> tuple[str, list[str], list[str]]:
    """Fetch `/docs/a`, which redirects by the hops to the location. Returns what the model saw, the paths that were
    requested, and what somebody was asked about."""

    async def scenario() -> tuple[str, list[str], list[str]]:
        ways = {START if not number else hops[number - 1]: hop for number, hop in enumerate((*hops, location))}

        def answer(path: str) -> bytes:
            return redirect(ways[path].replace("PORT", str(port))) if path in ways else reply("there")

        port = 0
        async with site(answer) as public:
            port = public.port
            given = {
                name: [rule.replace("HOST", f"example.test:{port}") for rule in value] if name != "approver" else value
                for name, value in safety.items()
            }
            asked: list[str] = []

            def approve(request: Any) -> bool:
                asked.append(request.arguments["url"])
                return True

            if given.pop("approver", False):
                given["approve"] = approve
            url = f"http://example.test:{port}{START}"
            model = ScriptedModel([call("web_fetch", url=url), "Done."])
            agent = Agent(
                model.endpoint(),
                [fetcher(public)],
                connection=Connection(transport=model),
                **given,
            )
            result = await agent.arun("Fetch it.")
            paths = [request.split(" ")[1] for request in public.requests]
            return str(result.results[0].content), paths, asked

    return asyncio.run(scenario())


RULES = {"allow": ["fetch(http://HOST/docs/**)"]}
DENY = {"allow": ["fetch(domain:example.test)"], "deny": ["fetch(http://HOST/private/**)"]}
ASK = {"allow": ["fetch(domain:example.test)"], "ask": ["fetch(http://HOST/private/**)"], "approver": True}
APPROVED = {"approver": True}


@each_row(
    ("safety", "location", "expected"),
    [
        (RULES, "/docs/b", FOLLOWED),
        (RULES, "/docs/deep/b/", FOLLOWED),
        (RULES, "/admin", TOLD),
        (RULES, "//example.test:PORT/admin", TOLD),
        (RULES, "../admin", TOLD),
        (RULES, "/docs/../admin", TOLD),
        (RULES, "/docs/%2e%2e/admin", TOLD),
        (RULES, "/docs%2fadmin", TOLD),
        (RULES, "/docs/..;/admin", TOLD),
        (RULES, "/docs/%252e%252e/admin", TOLD),
        (RULES, "/document", TOLD),
        (RULES, "/?x=/docs/", TOLD),
        (DENY, "/public", FOLLOWED),
        (DENY, "/private/x", REFUSED),
        (DENY, "/public/../private/x", REFUSED),
        (DENY, "/%70rivate/x", REFUSED),
        (DENY, "/public/..;a=b/private/x", REFUSED),
        (DENY, "/private/x?y=1", REFUSED),
        (DENY, "//EXAMPLE.test:PORT/private/x", REFUSED),
        (ASK, "/public", FOLLOWED),
        (ASK, "/private/x", TOLD),
        (APPROVED, "/docs/a/", FOLLOWED),
        (APPROVED, "/docs/b", TOLD),
        (APPROVED, "/docs/a?x=1", TOLD),
        (APPROVED, "/", TOLD),
    ],
)
def test_every_target_is_decided_on(safety: dict[str, Any], location: str, expected: str) -> None:
    for hops in ((), ("/docs/hop",)):
        if hops and safety is APPROVED:
            continue
        said, paths, asked = walk(location, safety=safety, hops=hops)
        assert expected in said, said
        requested = [START, *hops]
        assert paths[: len(requested)] == requested
        assert len(paths) == len(requested) + (expected == FOLLOWED), "the target is requested only if it is allowed"
        assert all(url.endswith(START) for url in asked)


def test_a_policy_of_the_developer_sees_the_target() -> None:
    def policy(made: Any, tool: Any) -> Decision:
        return Decision("deny", "no secrets") if "secret" in made.arguments["url"] else Decision("allow")

    async def scenario() -> tuple[str, list[str]]:
        async with site(lambda path: redirect("/secret") if path == START else reply("there")) as public:
            url = f"http://example.test:{public.port}{START}"
            model = ScriptedModel([call("web_fetch", url=url), "Done."])
            agent = Agent(
                model.endpoint(),
                [fetcher(public)],
                allow=["fetch(domain:example.test)"],
                connection=Connection(transport=model),
                safety=Safety(policy=policy),
            )
            result = await agent.arun("Fetch it.")
            return str(result.results[0].content), [request.split(" ")[1] for request in public.requests]

    said, paths = asyncio.run(scenario())
    assert REFUSED in said and paths == [START]
