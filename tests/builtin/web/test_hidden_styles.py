"""Text that a page hides by its own styles, and text that its styles leave visible."""

from __future__ import annotations

from tests.tables import each_row

from dragoman.builtin.web.readable import to_readable

INLINE = (
    "display:none",
    "display:none!important",
    "display: none ! important",
    "visibility:hidden",
    "visibility:collapse",
    "opacity:0",
    "opacity:0%",
    "opacity:.01",
    "filter:opacity(0)",
    "filter:opacity(0%)",
    "content-visibility:hidden",
    "font-size:0",
    "font-size:0px",
    "font-size:1px",
    "font-size:.1em",
    "font-size:1%",
    "font:0/0 a",
    "font:1px serif",
    "color:white",
    "color:#fff",
    "color:#FEFEFE",
    "color:#ffffff00",
    "color:rgb(255,255,255)",
    "color:rgb(255 255 255 / 100%)",
    "color:rgba(0,0,0,0)",
    "color:hsl(0,0%,100%)",
    "color:transparent",
    "-webkit-text-fill-color:transparent",
    "color:black;background:black",
    "color:#123456;background-color:#123457",
    "background:#000;color:rgb(3,3,3)",
    "position:absolute;left:-9999px",
    "position:absolute;left:-1000px",
    "position:fixed;top:-200vh",
    "position:absolute;right:-9999px",
    "position:absolute;left:9999px",
    "position:relative;bottom:-9999em",
    "text-indent:-9999px",
    "margin-left:-9999px",
    "margin:-9999px 0 0 0",
    "transform:translateX(-9999px)",
    "transform:translate(-100vw, 0)",
    "transform:scale(0)",
    "transform:scale(0,1)",
    "scale:0",
    "clip:rect(0,0,0,0)",
    "clip:rect(1px, 1px, 1px, 1px)",
    "clip:rect(0 0 0 0)",
    "clip-path:inset(50%)",
    "clip-path:inset(100%)",
    "clip-path:circle(0)",
    "clip-path:polygon(0 0, 0 0, 0 0)",
    "width:0;height:0;overflow:hidden",
    "width:1px;height:1px;overflow:hidden",
    "max-height:0;overflow:hidden",
    "height:0;overflow-y:hidden",
    "line-height:0;overflow:hidden",
    "width:0;overflow:clip",
    "zoom:0",
)


@each_row("style", INLINE)
def test_a_style_that_hides(style: str) -> None:
    pages = (
        f"<p>a<p style='{style}'>SECRET</p>b",
        f"<style>.x {{ {style} }}</style><p>a<p class='y x'>SECRET</p>b",
        f"<p>a<p id=x>SECRET</p>b<STYLE type=text/css>/* late */ p#x {{ {style} }}</STYLE>",
        f"<style>@media screen {{ div > p.x:not(.y) {{ {style} }} }}</style><p>a<div><p class=x>SECRET</p></div>b",
        f"<p>a<p style='{style.upper()}'><b>SECRET</b></p>b",
    )
    for page in pages:
        found = to_readable(page)
        assert "SECRET" not in found.text, page
        assert found.hidden == 1, page
        assert found.text.split() == ["a", "b"]


SELECTORS = (
    "*.x",
    "p.x",
    "#i",
    "p#i.x",
    "[data-k]",
    "[data-k=v]",
    "[data-k='v']",
    '[data-k^="v"]',
    "p[class~=x]",
    "body .x",
    "html body div .x",
    "div>.x",
    "div .x, .other",
    ".other,.x",
    "p:not(.other)",
    ":is(.x,.other)",
    ":where(p).x",
    "div p:nth-child(2)",
    "div p:nth-child(even)",
    "h1 ~ p",
    "h1 + .x",
    "div .\\78",
    ".x:not(:hover)",
)


@each_row("selector", SELECTORS)
def test_a_selector_that_finds_the_text(selector: str) -> None:
    page = f"<style>{selector}{{display:none}}</style>a<div><h1>b</h1><p id=i class='x z' data-k=v>SECRET</p></div>"
    found = to_readable(page)
    assert "SECRET" not in found.text and found.hidden == 1
    assert "a" in found.text and "b" in found.text


SEEN = (
    "<style>.x{display:none}</style><p class=y>SEEN</p>",
    "<style>.x{display:none} p.x{display:block}</style><p class=x>SEEN</p>",
    "<style>p.x{display:none} .x{display:block!important}</style><p class=x>SEEN</p>",
    "<style>.x{display:none}</style><p class=x style='display:block'>SEEN</p>",
    "<style>.x:hover{display:none}</style><p class=x>SEEN</p>",
    "<style>.x::before{display:none}</style><p class=x>SEEN</p>",
    "<style>@media print{.x{display:none}}</style><p class=x>SEEN</p>",
    "<style media=print>.x{display:none}</style><p class=x>SEEN</p>",
    "<style>@media (max-width:600px){.x{display:none}}</style><p class=x>SEEN</p>",
    "<style>/* .x{display:none} */ .y{color:red}</style><p class=x>SEEN</p>",
    "<style>div .x{display:none}</style><p class=x>SEEN</p>",
    "<style>nav>.x{display:none}</style><p class=x>SEEN</p>",
    "<style>.x{color:#fff;background:#000}</style><p class=x>SEEN</p>",
    "<style>body{background:#111} p{color:#eee}</style><p>SEEN</p>",
    "<body bgcolor=black text=white><p style='color:white'>SEEN</p>",
    "<div style='background:navy'><p style='color:white'>SEEN</p></div>",
    "<div style='background:url(a.png)'><p style='color:white'>SEEN</p></div>",
    "<div style='visibility:hidden'><p style='visibility:visible'>SEEN</p></div>",
    "<div style='font-size:0'><p style='font-size:16px'>SEEN</p></div>",
    "<div style='color:white'><p style='color:black'>SEEN</p></div>",
    "<p style='opacity:.5'>SEEN</p>",
    "<p style='font-size:8px'>SEEN</p>",
    "<p style='height:0'>SEEN</p>",
    "<p style='overflow:hidden;width:100%;line-height:1'>SEEN</p>",
    "<p style='margin-left:-20px'>SEEN</p>",
    "<p style='position:relative;left:-5px'>SEEN</p>",
    "<p style='transform:translateX(-50%)'>SEEN</p>",
    "<p style='clip-path:inset(2px)'>SEEN</p>",
    "<p style='color:#777'>SEEN</p>",
    "<p style='color:currentcolor'>SEEN</p>",
    "<p style='display:unknown-value'>SEEN</p>",
    "<details><summary>x</summary>SEEN</details>",
    "<style>.x{display:none</style><p class=y>SEEN</p>",
    "<style>}}} .x{{{</style><p class=y>SEEN</p>",
    "<style>html{visibility:hidden}</style><p>SEEN</p>",
)


@each_row("page", SEEN)
def test_a_style_that_leaves_the_text_visible(page: str) -> None:
    found = to_readable(page)
    assert "SEEN" in found.text
    assert found.hidden == 0


OTHER = (
    "<template>SECRET</template>",
    "<noscript>SECRET</noscript>",
    "<!-- SECRET -->",
    "<div popover>SECRET</div>",
    "<dialog>SECRET</dialog>",
    "<iframe>SECRET</iframe>",
    "<object>SECRET</object>",
    "<canvas>SECRET</canvas>",
    "<video>SECRET</video>",
    "<svg><text>SECRET</text></svg>",
    "<font color=white>SECRET</font>",
    "<table bgcolor=#336699><tr><td><font color=#336699>SECRET</font></table>",
    "<div style='display:none'><div style='display:block'>SECRET</div></div>",
    "<div style='opacity:0'><div style='opacity:1'>SECRET</div></div>",
    "<div style='font-size:0'><b>SECRET</b></div>",
    "<div style='color:#fff'><b><i>SECRET</i></b></div>",
    "<div style='font-size:1px'><b style='font-size:1em'>SECRET</b></div>",
    "<style>:root{--hide:none} .x{display:var(--hide)}</style><p class=x>SECRET</p>",
    "<style>.x{display:var(--no, none)}</style><p class=x>SECRET</p>",
    "<style>.a{& .x{display:none}}</style><div class=a><p class=x>SECRET</p></div>",
    "<style>.a{color:red;.x{display:none}}</style><div class=a><p class=x>SECRET</p></div>",
    "<style>@supports (display:grid){@layer a{.x{display:none}}}</style><p class=x>SECRET</p>",
    "<style>.x{d\\69splay:none}</style><p class=x>SECRET</p>",
    "<style>.x{display/**/:none}</style><p class=x>SECRET</p>",
    "<style><!-- .x{display:none} --></style><p class=x>SECRET</p>",
    "<style>@import url(x.css); .x{display:none}</style><p class=x>SECRET</p>",
    "<style>a{content:'}'} .x{display:none}</style><p class=x>SECRET</p>",
    "<style>.y{color:red}</style><style>.x{display:none}</style><p class=x>SECRET</p>",
    "<body style='background:#000;color:#000'><p>SECRET</p>",
    "<style>body{background:#222;color:#222}</style><p>SECRET</p>",
    "<img alt=SECRET style='display:none'>",
    "<style>img.x{opacity:0}</style><img class=x alt=SECRET>",
)


@each_row("page", OTHER)
def test_other_ways_to_hide_a_text(page: str) -> None:
    assert "SECRET" not in to_readable(f"before {page} after").text


def test_a_sheet_cannot_take_all_the_time() -> None:
    rules = "".join(f"div div div .a{number} * {{display:none}}" for number in range(4000))
    page = f"<style>{rules}</style>" + "<div><p class=b>x" * 20_000
    assert to_readable(page).cut
