"""Charsets and media types of pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.builtin.web.fetch import decode, kind_of, media_type_of, read_page

CHARSETS = [
    ("grün".encode(), "", "grün"),
    ("grün".encode(), "utf-8", "grün"),
    ("grün".encode("latin-1"), "", "grün"),
    ("grün".encode("latin-1"), "iso-8859-1", "grün"),
    ("“grün”".encode("cp1252"), "iso-8859-1", "“grün”"),
    ("привет".encode("koi8-r"), "koi8-r", "привет"),
    ("привет".encode("cp1251"), "windows-1251", "привет"),
    ("日本".encode("shift_jis"), "shift_jis", "日本"),
    ("日本".encode("euc-jp"), "euc-jp", "日本"),
    ("中文".encode("gbk"), "gb2312", "中文"),
    ("中文".encode("big5"), "big5", "中文"),
    ("한국".encode("euc-kr"), "euc-kr", "한국"),
    (b"\xef\xbb\xbf" + "ä".encode(), "latin1", "ä"),
    ("ä".encode("utf-16"), "", "ä"),
    (b"\xfe\xff" + "ä".encode("utf-16-be"), "utf-8", "ä"),
    ("grün".encode(), "no-such-charset", "grün"),
    (b"a+AGE-", "utf-7", "a+AGE-"),
    (b"\\u0041", "unicode_escape", "\\u0041"),
    (b"n", "rot13", "n"),
    (b"bcher-kva", "punycode", "bcher-kva"),
    ("grün".encode()[:-2], "", "gr"),
    (b"a\xffb", "utf-8", "a\ufffdb"),
]


@each_row(("data", "charset", "text"), CHARSETS)
def test_a_body_is_decoded_by_mark_header_or_guess(data: bytes, charset: str, text: str) -> None:
    assert decode(data, charset) == text


@pytest.mark.parametrize(
    "declaration",
    [
        b"<meta charset=windows-1251>",
        b"<META CHARSET='windows-1251'>",
        b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
    ],
)
def test_a_page_may_name_its_charset_itself(declaration: bytes) -> None:
    page = declaration + "привет".encode("cp1251")
    assert decode(page, "", is_html=True).endswith("привет")
    assert decode(page, "utf-8", is_html=True).endswith("\ufffd")
    assert decode(b"<!--" + declaration + b"-->" + "ä".encode(), "", is_html=True).endswith("ä")


def test_a_page_that_can_be_read_is_no_utf_16() -> None:
    assert decode(b"<meta charset=utf-16>x", "", is_html=True).endswith("x")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("text/html; charset=UTF-8", ("text/html", "utf-8")),
        ('Text/HTML;a=b; Charset="x" ', ("text/html", "x")),
        ("text/html, text/plain", ("text/html", "")),
        ("", ("", "")),
        ("; charset=", ("", "")),
    ],
)
def test_the_header_names_type_and_charset(header: str, found: tuple[str, str]) -> None:
    assert media_type_of({"content-type": header}) == found


@given(
    st.binary(max_size=300), st.sampled_from(["", "text/html", "text/plain", "image/png", "x"]), st.text(max_size=20)
)
def test_every_body_is_a_page(data: bytes, media_type: str, charset: str) -> None:
    page = read_page(data, media_type, charset, "https://example.org/", raw=False, size=len(data))
    assert page.kind == kind_of(media_type, data)
    page.text.encode()
