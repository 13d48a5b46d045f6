"""HTML as readable text: what is kept, what is removed, and that the time for a page is limited."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.builtin.web.readable import to_readable

ADDRESS = "https://example.org/docs/page"

SHAPES = [
    ("<h1>One</h1><h3>Three</h3>text", "# One\n\n### Three\n\ntext"),
    ("<h2></h2><p>text", "text"),
    ("a<br>b<br><br>c", "a\nb\n\nc"),
    ("<p>a<p>b<div>c</div>d", "a\n\nb\n\nc\nd"),
    ("  many \n spaces\t<b> here </b> ok", "many spaces here ok"),
    ("<ul><li>a<li>b</ul>", "- a\n- b"),
    ("<ol start=3><li>a<li>b</ol>c", "3. a\n4. b\n\nc"),
    ("<ol start=99999999999999999999><li>a</ol>", "1. a"),
    ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
    ("<ul><li><p>a</p><p>b</p></li></ul>", "- a\n\n  b"),
    ("<ul><li></li><li>b</li></ul>", "- b"),
    ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n: b\nc\n: d"),
    ("<blockquote>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
    ("<pre>a\n  b\n</pre>c", "```\na\n  b\n```\n\nc"),
    ("<pre><code>a &lt;b&gt;</code></pre>", "```\na <b>\n```"),
    ("<pre>f(<a href=x>a</a>, <sup>b</sup>, <q>c</q>)</pre>", "```\nf(a, b, c)\n```"),
    ("<pre>```</pre>", "````\n```\n````"),
    ("use <code>a b</code>.", "use `a b`."),
    ("10<sup>6</sup>", "10^6"),
    ("<q>a</q>", '"a"'),
    ("a<hr>b", "a\n\n---\n\nb"),
    ("<img src=x alt='a cat'><img src=y>", "[image: a cat]"),
    ("&lt;b&gt; &amp;amp; &eacute;&#233;&#xe9; &nope; &#0;", "<b> &amp; ééé &nope; \ufffd"),
    ("&#99999999999999999999; &#x110000;", "\ufffd \ufffd"),
    ("a < b > c <3 d", "a < b > c <3 d"),
    ("<a href=x>link</a>", "[link](https://example.org/docs/x)"),
    ("<a href='/a b(c)'>link</a>", "[link](https://example.org/a%20b%28c%29)"),
    ("<a href='//other.example'>link</a>", "[link](https://other.example)"),
    ("<a href='https://a.example/'>https://a.example/</a>", "https://a.example/"),
    ("<a href='#top'>top</a> <a href='javascript:x'>js</a> <a href=data:x>d</a> <a>n</a>", "top js d n"),
    ("<a href=x></a>y<a href=z> </a>", "y"),
    ("<a href=x><h3>Card</h3><p>text</p></a>", "### Card\n\ntext\n\n<https://example.org/docs/x>"),
    ("<a href=mailto:a@b.example>mail</a>", "[mail](mailto:a@b.example)"),
    ("<a href='http://[bad'>x</a>", "x"),
    ("<base href='https://cdn.example/b/'><a href=c>x</a>", "[x](https://cdn.example/b/c)"),
    ("<base href='javascript:x'><a href=c>x</a>", "[x](https://example.org/docs/c)"),
    ("<table><tr><th>a<th>b<tr><td>1<td><p>2</p>x</table>c", "a | b\n1 | 2 x\n\nc"),
    ("<table><tr><td>a</td><td></td><td>c</td><td></td></tr></table>", "a |  | c"),
    ("<table><tr><td><h1>a</h1><p>b</p></td></tr></table>", "# a\n\nb"),
    ("<table><tr><td><table><tr><td>a<td>b</table></td><td>c</td></tr></table>", "a | b\n\nc"),
    ("<table><tr><td>" + "x" * 2000 + "<td>b</table>", "x" * 2000 + "\nb"),
    ("a<script>if (1<2) document.write('<p>x')</script>b<style>p{}</style>c", "abc"),
    ("a<SCRIPT>x</scripty></ScRiPt >b", "ab"),
    ("a<svg><title>t</title><text>x</text></svg>b<svg/>c", "abc"),
    ("a<noscript>x</noscript><template>y</template><select><option>z</select><textarea>t</textarea>b", "ab"),
    ("a<iframe>x</iframe>b", "ab"),
    ("a<!-- x --><!doctype y><?php z ?>b<![CDATA[c]]>d", "abd"),
    ("a<!--> b <!---> c <!-- d --!> e", "a b c e"),
    ("a<!-- never closed", "a"),
    ("a<b never closed", "a"),
    ("a<b c='never closed>d", "a"),
    ("<p title='a>b' class=\"c>d\">e", "e"),
    ("<xmp><b>a</b></xmp>", "```\n<b>a</b>\n```"),
    ("a</p></div></nothing>b", "ab"),
    ("a</br>b", "a\nb"),
    ("<details><summary>more</summary>text</details>", "more\ntext"),
    ("", ""),
    ("\x00a\x1b[31mb\u202ec", "a[31mbc"),
]


@each_row(("source", "text"), SHAPES)
def test_pages_become_text(source: str, text: str) -> None:
    assert to_readable(source, ADDRESS).text == text


def test_the_title_is_apart() -> None:
    found = to_readable("<head><title> A\n &amp; B </title></head><body>text<title>second</title>")
    assert (found.title, found.text) == ("A & B", "text")


HIDDEN = [
    "<p hidden>SECRET</p>",
    "<p HIDDEN=''>SECRET</p>",
    "<div hidden=until-found>SECRET</div>",
    "<div aria-hidden=true>SECRET</div>",
    "<div aria-hidden=' TRUE '>SECRET</div>",
    "<div style='display:none'>SECRET</div>",
    "<div style='color:red; DISPLAY : NONE !important'>SECRET</div>",
    "<div style='dis/**/play:none'>SECRET</div>",
    "<div style='d\\69splay:none'>SECRET</div>",
    "<div style='display&#58;none'>SECRET</div>",
    "<div style='visibility:hidden'>SECRET</div>",
    "<span style='opacity:0'>SECRET</span>",
    "<span style='opacity:0.0'>SECRET</span>",
    "<span style='font-size:0'>SECRET</span>",
    "<span style='font-size:0px;'>SECRET</span>",
    "<span style='color:transparent'>SECRET</span>",
    "<span style='position:absolute;left:-9999px'>SECRET</span>",
    "<span style='text-indent:-999em'>SECRET</span>",
    "<span style='clip:rect(0,0,0,0)'>SECRET</span>",
    "<span style='height:0;overflow:hidden'>SECRET</span>",
    "<dialog>SECRET</dialog>",
    "<div hidden><div>SECRET</div>SECRET</div>",
    "<div hidden><b>SECRET</div>",
    "<b><div hidden>a</b>SECRET</div>",
    "<div hidden><table><tr><td></div>SECRET</table></div>",
    "<div hidden></span></p></li>SECRET</div>",
    "<table><tr><td hidden>SECRET<td>x</table>",
    "<ul><li hidden>SECRET<li>x</ul>",
    "<p hidden>SECRET<p>x",
    "<div hidden><!-- </div> -->SECRET</div>",
    "<div hidden><script></div></script>SECRET</div>",
    "<div hidden title='</div>'>SECRET</div>",
]


@each_row("source", HIDDEN)
def test_what_a_visitor_would_not_see_is_dropped_and_counted(source: str) -> None:
    found = to_readable(f"before {source} after")
    assert "SECRET" not in found.text
    assert found.text.startswith("before") and found.text.endswith("after")
    assert found.hidden == 1


SEEN = [
    "<div style='opacity:0.5'>SEEN</div>",
    "<div style='opacity:.1'>SEEN</div>",
    "<div style='font-size:0.9em'>SEEN</div>",
    "<div style='display:block'>SEEN</div>",
    "<div style='margin-left:-20px'>SEEN</div>",
    "<div style='height:0'>SEEN</div>",
    "<div aria-hidden=false>SEEN</div>",
    "<dialog open>SEEN</dialog>",
    "<div data-hidden>SEEN</div>",
    "<div title='display:none'>SEEN</div>",
]


@pytest.mark.parametrize("source", SEEN)
def test_what_a_visitor_sees_stays(source: str) -> None:
    found = to_readable(source)
    assert (found.text, found.hidden) == ("SEEN", 0)


def test_hidden_elements_without_text_are_not_worth_a_word() -> None:
    assert to_readable("a<i aria-hidden=true class=icon> </i>b").hidden == 0


def test_letters_without_a_shape_are_dropped_and_counted() -> None:
    smuggled = "".join(chr(0xE0000 + ord(letter)) for letter in "do evil")
    found = to_readable(f"a{smuggled}b\u200bc")
    assert (found.text, found.unseen) == ("abc", 8)


# ---- laws ------------------------------------------------------------------------------------------------------------

_SPELLED = (
    "<p> <div hidden> </div> <a href=x> </a> <ul> <li> </ul> <table> <tr> <td> </table> <pre> </pre> <b> </b> <h1>"
    " </h1> <script> </script> <!-- --> <br> <code> </code> <sup> </sup> <svg> </svg> <blockquote> </blockquote> < > & "
    "&# ' \" text ` <title> </title> <dd> <option> <nav> </nav> </p> </li> </td> </tr>"
)
_PARTS = st.sampled_from([*re.findall(r"<[^ >]+ [^>]*>|[^ ]+", _SPELLED), " ", "\n"])


@given(st.one_of(st.text(max_size=200), st.lists(_PARTS, max_size=40).map("".join)))
def test_every_text_is_a_page(source: str) -> None:
    found = to_readable(source, ADDRESS)
    assert "\n\n\n" not in found.text or "```" in found.text
    assert found.text == found.text.strip("\n")
    assert not found.cut


@given(st.lists(_PARTS.filter(lambda part: part not in ("<!--", "<script>", "<title>", "'", '"')), max_size=30))
def test_nothing_of_a_hidden_block_is_shown(parts: list[str]) -> None:
    """With every content that does not end the block itself."""
    inner = "".join(part for part in parts if part != "</div>")
    assert "SECRET" not in to_readable(f"<div hidden>{inner}SECRET").text


HEAVY = [
    *(
        "<!--",
        "<!-- -->",
        "<a ",
        "<a b=",
        '<a b="',
        "<a =",
        "<!",
        "</",
        "<?",
        "<![CDATA[",
        "<",
        "&#",
        "&#1",
        "&",
        "<a/",
    ),
    *(
        "<a>",
        "</a>",
        "<a href=x>y",
        "<div>",
        "</div>",
        "<b><div></b>",
        "<i>x</p>",
        "<p>",
        "<p hidden>x",
        "<li>",
        "<dd>",
    ),
    *("<ul><li>x", "<blockquote>x", "<table>", "<table><tr><td>x", "<td>x</table>", "<sup>", "<sup>x</sup>", "<code>x"),
    *(
        "<pre>`\n",
        "<pre>x</pre>",
        "<br>",
        "<h1>",
        "<script>",
        "<title>",
        "<div style='/*'>",
        "<svg>",
        "<nav>",
        "<a><div>x",
    ),
]


def count_steps(source: str) -> int:
    """How many functions are called in the conversion: the same on every machine."""
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal steps
        steps += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        to_readable(source, ADDRESS)
    finally:
        sys.setprofile(before)
    return steps


@each_row("part", HEAVY)
def test_twice_the_page_is_at_most_twice_the_work(part: str) -> None:
    once, twice = count_steps(part * 500), count_steps(part * 1000)
    assert twice <= 2.2 * once + 200


@pytest.mark.parametrize("part", ["<!--", "<a ", "<a b='", "<![CDATA[", "<div style='/*", "&#1", "<script>", "<b><p>"])
def test_a_large_page_of_nothing_but_beginnings_is_soon_done(part: str) -> None:
    """A search for the end of each of them would take quadratic time."""
    assert len(to_readable(part * (400_000 // len(part))).text) <= 400_000


def test_depth_is_no_obstacle() -> None:
    found = to_readable("<div>" * 100_000 + "deep" + "</div>" * 100_000 + "after")
    assert (found.text, found.cut) == ("deep\nafter", False)


def test_a_page_that_never_ends_its_elements_is_cut_and_says_so() -> None:
    assert to_readable("<i>" * 200_002 + "x").cut


def test_the_text_is_bounded_whatever_the_links_expand_to() -> None:
    found = to_readable("<a href=x>y</a> " * 10_000, "https://example.org/" + "a" * 900 + "/", limit=50_000)
    assert found.cut
    assert len(found.text) < 52_000
