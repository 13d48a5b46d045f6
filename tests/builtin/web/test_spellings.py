"""No spelling of an address, no name and no redirect leads to a host that is not public."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.builtin.web.websites import LOCAL, Names, fetch, fetcher, redirect, reply, site

from dragoman.builtin.web.fetch import make_web_fetch, resolve_by_system
from dragoman.client.http import connection

# PORT is replaced with that of a server that must not be reached.
SPELLINGS = [
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0X7F000001:PORT/",
    "http://0x7f.0x0.0x0.0x1:PORT/",
    "http://0x7f.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0.0.01:PORT/",
    "http://00000177.0.0.1:PORT/",
    "http://017700000001:PORT/",
    "http://0177.0x0.0.1:PORT/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://0x0:PORT/",
    "http://127.255.255.254:PORT/",
    "http://4294967295:PORT/",
    "http://4294967296:PORT/",
    "http://2130706433.:PORT/",
    "http://1.2.3.4.5:PORT/",
    "http://127.0.0.1.1:PORT/",
    "http://example.test.1:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:7f00:0001]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b::a9fe:a9fe]:PORT/",
    "http://[64:ff9b:1::7f00:1]:PORT/",
    "http://[64:ff9b:1:7f00:0:1::]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2002:a9fe:a9fe::1]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[2001:0:808:808:0:0:80ff:fffe]:PORT/",
    "http://[2a00:1450::5efe:7f00:1]:PORT/",
    "http://[2a00:1450::200:5efe:a00:1]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fe80::1%25lo]:PORT/",
    "http://[fe80::1%lo]:PORT/",
    "http://[::1%25lo]:PORT/",
    "http://[fec0::1]:PORT/",
    "http://[fd00:ec2::254]:PORT/",
    "http://[fd20:ce::254]:PORT/",
    "http://[ff02::1]:PORT/",
    "http://[2001:db8::1]:PORT/",
    "http://[::1:PORT/",
    "http://::1:PORT/",
    "http://[v1.127]:PORT/",
    "http://[127.0.0.1]:PORT/",
    "http://10.0.0.1:PORT/",
    "http://172.16.0.1:PORT/",
    "http://192.168.0.1:PORT/",
    "http://169.254.169.254:PORT/latest/meta-data/",
    "http://2852039166:PORT/latest/meta-data/",
    "http://0xa9fea9fe:PORT/",
    "http://100.100.100.200:PORT/",
    "http://192.0.0.192:PORT/",
    "http://168.63.129.16:PORT/",
    "http://198.18.0.1:PORT/",
    "http://224.0.0.1:PORT/",
    "http://240.0.0.1:PORT/",
    "http://255.255.255.255:PORT/",
    "http://１２７.０.０.１:PORT/",
    "http://127。0。0。1:PORT/",
    "http://127．0．0．1:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏:PORT/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://a.localhost:PORT/",
    "http://localhost.localdomain:PORT/",
    "http://ip6-localhost:PORT/",
    "http://printer.local:PORT/",
    "http://metadata.google.internal:PORT/computeMetadata/v1/",
    "http://metadata:PORT/",
    "http://wiki.corp:PORT/",
    "http://router.home.arpa:PORT/",
    "http://1.0.0.127.in-addr.arpa:PORT/",
    "http://private.test:PORT/",
    "http://PRIVATE.test.:PORT/",
    "http://mapped.test:PORT/",
    "http://mixed.test:PORT/",
    "http://mixed6.test:PORT/",
    "http://zone.test:PORT/",
    "http://nonsense.test:PORT/",
    "http://public.test@127.0.0.1:PORT/",
    "http://public.test:80@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT@public.test/",
    "http://@127.0.0.1:PORT/",
    "http://public.test\\@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@public.test/",
    "http:\\\\127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT/",
    "http://127.0.0.1%2f:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://%6c%6f%63%61%6c%68%6f%73%74:PORT/",
    "http://127.0.0.1%00.public.test:PORT/",
    "http://127.0.0.1\x00.public.test:PORT/",
    "http://127.0.0.1\t:PORT/",
    "http://127.0\n.0.1:PORT/",
    "http://127.0.0.1 :PORT/",
    "http://127.0.0.1#@public.test:PORT/",
    "http://127.0.0.1?@public.test:PORT/",
    "http://public.test#@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT:80/",
    "http://127.0.0.1:+PORT/",
    "http://:PORT/",
    "http://.:PORT/",
    "http://..:PORT/",
    "http://127..1:PORT/",
    "http://public.test／@127.0.0.1:PORT/",
    "http://127.0.0.1℀.test:PORT/",
    "file:/etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_GET",
    "dict://127.0.0.1:PORT/x",
    "javascript:alert(1)",
    "data:text/html,x",
    "jar:http://127.0.0.1:PORT/!/",
    "view-source:http://127.0.0.1:PORT/",
    "",
    " ",
    "http://",
    "http://" + "a" * 9000,
]
NAMES = {
    "private_test": ["127.0.0.1"],
    "mapped_test": ["::ffff:127.0.0.1"],
    "mixed_test": ["93.184.216.34", "127.0.0.1"],
    "mixed6_test": ["93.184.216.34", "::1"],
    "zone_test": ["fe80::1%lo"],
    "nonsense_test": ["localhost"],
}
LOOPBACKS = ("127.0.0.1", "::1")


def test_there_are_enough_spellings() -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS) >= 60


def test_no_spelling_reaches_the_own_machine() -> None:
    async def scenario() -> tuple[int, list[str]]:
        async with site(lambda path: reply("secret"), LOOPBACKS) as target:
            tool = make_web_fetch(ports=(80, target.port), resolver=Names(**NAMES))
            answers = [await fetch(tool, each.replace("PORT", str(target.port))) for each in SPELLINGS]
            return target.connections, [each for each in answers if not each.startswith("Error: ")]

    assert asyncio.run(scenario()) == (0, [])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:7f00:1]", "①②⑦.1"]
)
def test_the_same_spellings_reach_it_where_that_is_allowed(host: str) -> None:
    async def scenario() -> str:
        async with site(lambda path: reply("hello")) as target:
            return await fetch(fetcher(target), f"http://{host}:{target.port}/a")

    assert asyncio.run(scenario()).endswith("hello")


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.0/8", "[::ffff:127.0.0.1]", "127.0.0.1:PORT"])
def test_an_allowance_is_an_address_a_network_or_one_port(entry: str) -> None:
    async def scenario() -> str:
        async with site(lambda path: reply("hello")) as target:
            allowed = entry.replace("PORT", str(target.port))
            tool = make_web_fetch(ports=(target.port,), allow_private=(allowed,))
            return await fetch(tool, f"http://127.0.0.1:{target.port}/")

    assert asyncio.run(scenario()).endswith("hello")


@pytest.mark.parametrize(
    ("name", "listed", "reached"),
    [
        ("wiki.internal", ("wiki.internal", "127.0.0.1"), True),
        ("wiki.internal", ("wiki.internal",), False),
        ("wiki.internal", ("127.0.0.1",), False),
        ("other.internal", ("wiki.internal", "127.0.0.1"), False),
    ],
)
def test_a_private_name_needs_its_name_and_its_address_on_the_list(
    name: str, listed: tuple[str, ...], reached: bool
) -> None:
    async def scenario() -> tuple[bool, str]:
        async with site(lambda path: reply("hello")) as target:
            names = Names(wiki_internal=["127.0.0.1"], other_internal=["127.0.0.1"])
            tool = make_web_fetch(ports=(target.port,), allow_private=listed, resolver=names)
            answer = await fetch(tool, f"http://{name}:{target.port}/")
            return target.connections > 0, answer

    was_reached, answer = asyncio.run(scenario())
    assert was_reached is reached
    assert answer.startswith("Error: ") is not reached


# ---- redirects ------------------------------------------------------------------------------------------------------

REDIRECTS = [
    "http://127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "///127.0.0.1:PORT/",
    "\\\\127.0.0.1:PORT/",
    "/\\127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f.1:PORT/",
    "http://[::1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://localhost:PORT/",
    "http://private.test:PORT/",
    "http://mixed.test:PORT/",
    "http://example.test@127.0.0.1:PORT/",
    "http://example.test:PORT/",
    "http://１２７.0.0.1:PORT/",
    "http://127.0.0.1:PORT\t/",
    "http://metadata.google.internal/",
    "http://169.254.169.254/latest/meta-data/",
    "file:/etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_x",
    "javascript:1",
    "data:text/plain,x",
    "",
]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("asked", [False, True])
def test_no_redirect_reaches_the_own_machine(status: str, asked: bool) -> None:
    async def scenario() -> tuple[int, list[str]]:
        async with site(lambda path: reply("secret"), LOOPBACKS) as target:
            locations = [each.replace("PORT", str(target.port)) for each in REDIRECTS]
            leads = iter(locations)
            async with site(lambda path: redirect(next(leads), status)) as public:
                names = Names(**NAMES, example_test=["127.0.0.1"])
                tool = fetcher(public, ports=(80, public.port, target.port), resolver=names)
                url = f"http://example.test:{public.port}/"
                answers = [await fetch(tool, url, decided=url if asked else "") for _ in locations]
        told = [answer for answer in answers if not answer.startswith("Error: ")]
        return target.connections, told

    connections, told = asyncio.run(scenario())
    assert connections == 0
    if not asked:
        assert told == []
    else:
        # Names that look public are told to the model, which has to ask for them; they are refused then.
        assert all("another host" in answer for answer in told)
        assert {line.split("/")[2].split(":")[0] for answer in told for line in answer.split("\n")[3:4]} == {
            "private.test",
            "mixed.test",
        }


def test_a_chain_of_redirects_ends_where_the_first_bad_one_is() -> None:
    async def scenario() -> tuple[int, int, str]:
        async with site(lambda path: reply("secret")) as target:

            def lead(path: str) -> bytes:
                step = int(path[1:] or "0")
                return redirect(f"/{step + 1}" if step < 3 else f"http://127.0.0.1:{target.port}/")

            async with site(lead) as public:
                tool = fetcher(public, ports=(public.port, target.port))
                answer = await fetch(tool, f"http://example.test:{public.port}/0")
                return target.connections, public.connections, answer

    connections, steps, answer = asyncio.run(scenario())
    assert (connections, steps) == (0, 4)
    assert "127.0.0.1 is an address of this machine" in answer


def test_redirects_end_after_five() -> None:
    async def scenario() -> tuple[int, str]:
        async with site(lambda path: redirect(path + "x")) as public:
            answer = await fetch(fetcher(public), f"http://example.test:{public.port}/")
            return public.connections, answer

    connections, answer = asyncio.run(scenario())
    assert connections == 6
    assert "redirects more than 5 times" in answer


# ---- names that change, peers that differ ----------------------------------------------------------------------------


def test_a_name_is_looked_up_once_for_each_request() -> None:
    """The second answer of the resolver is the forbidden one: a second lookup would lead there."""

    async def scenario() -> tuple[list[str], int, list[str]]:
        async with site(lambda path: reply("public")) as public:
            names = Names(rebind_test=[["127.0.0.1"], ["127.0.0.2"]])
            tool = fetcher(public, resolver=names)
            answers = [await fetch(tool, f"http://rebind.test:{public.port}/") for _ in range(2)]
            return names.asked, public.connections, answers

    asked, connections, answers = asyncio.run(scenario())
    assert (asked, connections) == (["rebind.test"] * 2, 1)
    assert answers[0].endswith("public")
    assert "127.0.0.2 is an address of this machine" in answers[1]


def test_a_name_that_changes_between_redirects_is_judged_again() -> None:
    async def scenario() -> tuple[int, str]:
        async with site(lambda path: redirect("/next")) as public:
            names = Names(rebind_test=[["127.0.0.1"], ["10.0.0.1"]])
            answer = await fetch(fetcher(public, resolver=names), f"http://rebind.test:{public.port}/")
            return public.connections, answer

    connections, answer = asyncio.run(scenario())
    assert connections == 1
    assert "10.0.0.1 is an address of a private network" in answer


def test_the_resolver_of_the_system_is_asked_without_a_network() -> None:
    assert asyncio.run(resolve_by_system("127.0.0.1", 80)) == ["127.0.0.1"]


def test_nothing_is_said_to_a_peer_with_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something between us and the network sends the connection elsewhere."""

    real: Callable[..., Awaitable[None]] = connection._connect

    async def elsewhere(connection: object, host: str, *others: object) -> None:
        assert host == "93.184.216.34"
        await real(connection, "127.0.0.1", *others)

    monkeypatch.setattr(connection, "_connect", elsewhere)

    async def scenario() -> tuple[list[str], str]:
        async with site(lambda path: reply("secret")) as target:
            tool = make_web_fetch(ports=(target.port,), resolver=Names(public_test=["93.184.216.34"]))
            answer = await fetch(tool, f"http://public.test:{target.port}/")
            return target.requests, answer

    requests, answer = asyncio.run(scenario())
    assert requests == []
    assert "went to 127.0.0.1 and not to 93.184.216.34" in answer


def test_the_next_address_is_tried_where_nothing_listens() -> None:
    async def scenario() -> str:
        async with site(lambda path: reply("hello")) as public:
            names = Names(two_test=["127.0.0.3", "127.0.0.1"])
            tool = make_web_fetch(ports=(public.port,), allow_private=("127.0.0.0/8",), resolver=names)
            return await fetch(tool, f"http://two.test:{public.port}/")

    assert asyncio.run(scenario()).endswith("hello")


def test_other_ports_are_refused_with_the_way_to_allow_them() -> None:
    answer = asyncio.run(fetch(make_web_fetch(resolver=LOCAL), "http://example.test:8080/"))
    assert answer == (
        "Error: port 8080 of example.test is not fetched, only 80, 443; "
        "whoever runs this can allow it with make_web_fetch(ports=...)"
    )
