"""Which addresses are public, and what hosts of addresses mean."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.builtin.web.addresses import (
    Refused,
    carried_addresses,
    follow,
    judge_address,
    judge_host,
    judge_name,
    read_url,
)

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2606:4700::5efe:808:808",
]
REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::100.100.100.200",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:808:808::",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:808:808::1",
    "2002:7f00:1::",
    "2606:4700::5efe:a00:1",
    "2606:4700::200:5efe:7f00:1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "no address",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert judge_address(address) == ""
    assert judge_address(ip_address(address)) == ""


@each_row("address", REFUSED)
def test_other_addresses_are_refused_with_a_reason(address: str) -> None:
    assert len(judge_address(address)) > 10


# ---- the law ---------------------------------------------------------------------------------------------------------

_numbers = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from([int(IPv4Address(text)) for text in REFUSED[:24]]),
    st.sampled_from([int(IPv4Address(text)) for text in PUBLIC[:11]]),
)
_WRAPPINGS = {
    "mapped": lambda number: 0xFFFF << 32 | number,
    "compatible": lambda number: number,
    "translated": lambda number: 0xFFFF << 48 | number,
    "nat64": lambda number: 0x64FF9B << 96 | number,
    "local nat64": lambda number: 0x64FF9B0001 << 80 | number,
    "local nat64, split": lambda number: 0x64FF9B0001 << 80 | number >> 16 << 64 | (number & 0xFFFF) << 40,
    "6to4": lambda number: 0x2002 << 112 | number << 80 | 1,
    "teredo client": lambda number: 0x20010000 << 96 | 0x08080808 << 64 | number ^ 0xFFFFFFFF,
    "teredo server": lambda number: 0x20010000 << 96 | number << 64 | 0x08080808 ^ 0xFFFFFFFF,
    "isatap": lambda number: 0x26064700 << 96 | 0x5EFE << 32 | number,
    "isatap, global": lambda number: 0x26064700 << 96 | 0x02005EFE << 32 | number,
}


def is_public(address: IPv4Address) -> bool:
    """What the standard library says, and what it forgets."""
    return address.is_global and not address.is_multicast and not address.is_reserved


@given(_numbers, st.sampled_from(sorted(_WRAPPINGS)))
@example(int(IPv4Address("169.254.169.254")), "nat64")
@example(int(IPv4Address("127.0.0.1")), "6to4")
def test_no_address_hides_another_that_is_not_public(number: int, wrapping: str) -> None:
    inner, outer = IPv4Address(number), IPv6Address(_WRAPPINGS[wrapping](number))
    assert inner in carried_addresses(outer)
    if not is_public(inner):
        assert judge_address(inner)
        assert judge_address(outer)


@given(st.integers(0, 2**128 - 1))
def test_what_is_allowed_is_global_and_so_is_all_it_carries(number: int) -> None:
    address = IPv6Address(number)
    if judge_address(address) == "":
        assert all(is_public(each) for each in carried_addresses(address))
        assert address.is_global
        assert not address.is_multicast and not address.is_link_local and not address.is_site_local


@given(st.integers(0, 2**32 - 1))
def test_all_spellings_of_numbers_mean_the_same(number: int) -> None:
    address = IPv4Address(number)
    a, b, c, d = address.packed
    spellings = [
        str(address),
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"{a:#x}.0{b:o}.{c}.{d}",
        f"{a}.{b}.{c}.{d}.",
    ]
    assert {judge_host(each) for each in spellings} == {address}


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for spelled in (text, f"http://{text}", f"https://{text}/"):
        try:
            found = read_url(spelled)
        except Refused as problem:
            assert problem.reason
        else:
            # The normal form is stable, and nothing in it has to be read twice.
            assert read_url(found.url) == found
            assert found.url.isascii() and found.url.isprintable() and " " not in found.url


# ---- hosts and addresses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://Example.ORG:443/A?b=C#d", "https://example.org/A?b=C"),
        ("http://example.org.:80", "http://example.org/"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        ("http://example.org?q=1", "http://example.org/?q=1"),
        ("https://bücher.example/straße?ä=ö ü", "https://xn--bcher-kva.example/stra%C3%9Fe?%C3%A4=%C3%B6%20%C3%BC"),
        ("https://example.org/a/../b/./c/%2E%2e/d", "https://example.org/b/d"),
        ("https://example.org/../..", "https://example.org/"),
        ("https://example.org/a/..", "https://example.org/"),
        ("https://example.org/a//b", "https://example.org/a//b"),
        ("https://example.org//evil.example/x", "https://example.org//evil.example/x"),
        ("https://example.org/a b\\c", "https://example.org/a%20b%5Cc"),
        ("https://example.org/100%", "https://example.org/100%"),
        ("https://[2606:4700:0:0::1111]/x", "https://[2606:4700::1111]/x"),
        ("https://[::ffff:1.1.1.1]/", "https://1.1.1.1/"),
        ("https://a_b-c.example/", "https://a_b-c.example/"),
    ],
)
def test_addresses_have_one_normal_form(url: str, normal: str) -> None:
    assert read_url(url).url == normal
    assert read_url(normal).url == normal


@pytest.mark.parametrize(
    ("name", "private"),
    [
        ("example.org", False),
        ("local.example.org", False),
        ("mylocal", True),
        ("notlocal.example", False),
        ("internal", True),
        ("x.internal", True),
        ("xinternal.org", False),
        ("localhost", True),
    ],
)
def test_names_are_judged_by_their_ends(name: str, private: bool) -> None:
    assert bool(judge_name(name)) is private


@pytest.mark.parametrize(
    ("location", "leads"),
    [
        ("/b", "https://example.org/b"),
        ("c?d", "https://example.org/a/c?d"),
        ("//other.example/x", "https://other.example/x"),
        ("https://other.example", "https://other.example/"),
        (" /b ", "https://example.org/b"),
        ("?q", "https://example.org/a/x?q"),
        ("/\u00c3\u00a4", "https://example.org/%C3%A4"),
        ("http://example.org/", "Refused: the redirect leads from https to plain http: http://example.org/"),
        ("//a@b/", "Refused: the address names a user; addresses with credentials are not fetched"),
        ("/a\\b", "Refused: the redirect leads to an address with control characters or backslashes"),
        ("/a\x0bb", "Refused: the redirect leads to an address with control characters or backslashes"),
        ("", "Refused: the redirect does not say where to"),
        ("//[", "Refused: the redirect leads to something that is no address"),
    ],
)
def test_redirects_are_read_like_addresses(location: str, leads: str) -> None:
    page = read_url("https://example.org/a/x")
    try:
        found = follow(page, location).url
    except Refused as problem:
        found = f"Refused: {problem.reason}"
    assert found == leads
