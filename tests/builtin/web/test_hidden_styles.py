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


COMPUTED = (
    *(
        "opacity:calc(0)",
        "opacity:calc(1 - 1)",
        "font-size:calc(0px)",
        "font-size:calc(1px*0)",
        "font-size:min(0px, 9px)",
    ),
    *("font-size:clamp(0px, 0px, 1px)", "position:absolute;left:calc(-9999px)", "position:absolute;left:-1e4px"),
    *("position:absolute;left:calc(-1 * (100vw + 9999px))", "width:calc(100% - 100%);overflow:hidden"),
    *("transform:translateX(calc(-100vw - 10em))", "filter:opacity(calc(0))", "filter:blur(50px)", "zoom:.01"),
    *("display:none;display:foo", "opacity:0;opacity:high", "font-size:0;font-size:big", "color:white;color:foo(1)"),
    *("visibility:hidden;visibility:shown", "color:#fff;color:#ggg", "color:#fff;color:whitte"),
    *("--x:none;display:var(--x)", "--c:#fff;color:var(--c)", "--a:var(--b);--b:0;opacity:var(--a)"),
    *(
        "color:oklch(1 0 0)",
        "color:oklab(100% 0 0)",
        "color:lab(100% 0 0)",
        "color:lch(100% 0 0)",
        "color:hwb(0 100% 0)",
    ),
    *("color:color(srgb 1 1 1)", "color:color-mix(in srgb, white, #fff)", "color:light-dark(white, black)"),
    *("color:rgb(from white r g b)", "color:rgb(from red r g b / 0)", "color:hsl(.5turn 0% 100%)"),
    *("background:oklch(0 0 0);color:black", "background:linear-gradient(#000, #000);color:#000"),
    *("position:absolute;inset:-9999px auto auto -9999px", "position:absolute;inset-inline-start:-9999px"),
    *("margin-inline-start:-9999px", "margin-block:-9999px 0", "block-size:0;overflow:hidden"),
    *(
        "max-inline-size:0;overflow:clip",
        "height:0;overflow:auto",
        "text-indent:200%;overflow:hidden;white-space:nowrap",
    ),
    *("transform:scale(.001)", "transform:matrix(0,0,0,0,0,0)", "transform:rotateY(90deg)", "rotate:y 90deg"),
    *("scale:.01", "transform:scale3d(1,0,1)", "mask-image:linear-gradient(transparent, transparent)"),
    *("-webkit-mask:linear-gradient(#0000, #fff0)", "-webkit-opacity:0"),
)
PLACED = (
    *("p:nth-child(2)", "p:last-child", "p:nth-last-child(1)", "p:last-of-type", "p:nth-of-type(1)", "p:only-of-type"),
    *("p:not(:first-child)", "p:nth-child(odd of p), p:nth-child(n+2)", "[data-k^=V i]", "*|p.x", "p:nth-child(-n+2)"),
    *("div > p:first-of-type", "p:not(h1)", "html p.x", ":root p.x"),
)
RULES = (
    "@MEDIA SCREEN{.x{display:none}}",
    "@media (prefers-color-scheme:light){.x{display:none}}",
    "@media (prefers-reduced-motion: no-preference){.x{display:none}}",
    ".x{display:none}.x{display:foo}",
    ":root{--d:none}.unused{--d:block}.x{display:var(--d)}",
    "div{--d:none}.x{display:var(--d)}",
    ".x{--d:0;opacity:var(--d)}",
    "@Layer a{.x{display:none}}",
)
LEFT_VISIBLE = (
    *("opacity:calc(1 - .5)", "font-size:calc(1em + 2px)", "font-size:clamp(1rem, 2vw, 3rem)", "color:tomato"),
    *("color:oklch(.2 0 0)", "color:color-mix(in srgb, black, white)", "display:none;display:grid", "opacity:env(x)"),
    *(
        "width:calc(100% - 1px);overflow:hidden",
        "margin-inline:auto",
        "inset:0;position:absolute",
        "transform:scale(.9)",
    ),
    *(
        "transform:rotate(90deg)",
        "opacity:var(--unknown)",
        "color:var(--unknown)",
        "background:linear-gradient(#fff,#000)",
    ),
    *("position:absolute;left:calc(50% - 10px)", "height:auto;overflow:auto", "filter:blur(1px)", "zoom:.9"),
)
OTHERS_VISIBLE = (
    *("p:last-child", "p:nth-child(3)", "p:nth-of-type(2)", "p:only-child", "p:has(b)", "h1:last-of-type ~ u"),
    *("p:nth-last-child(1)", "body > p:nth-child(1)", ".x:empty", "p:nth-child(3n)"),
)


def test_what_has_to_be_computed_to_hide_a_text() -> None:
    pages = {style: f"<p>a<p style='{style}'>SECRET</p>b" for style in COMPUTED}
    pages |= {f".x {{{style}}}": f"<style>.x{{{style}}}</style><p>a<p class=x>SECRET</p>b" for style in COMPUTED}
    body = "a<div><h1>b</h1><p id=i class='x z' data-k=v>SECRET</p></div>"
    pages |= {rule: f"<head><title>t</title><style>{rule}</style></head>{body}" for rule in RULES}
    pages |= {each: f"<head><style>{each}{{display:none}}</style></head>{body}" for each in PLACED}
    pages["continued"] = "<p>a<b style='display:none'>x<p>SECRET</b> b"
    pages["continued twice"] = "<p>a<b><i style='opacity:0'>x</p><div>SECRET</div><p>SECRET</i></b></p> b"
    pages["inherited"] = "<div style='--c:#fff'>a<p style='color:var(--c)'>SECRET</p>b</div>"
    pages["ruby"], pages["image"] = "a <rp>SECRET</rp> b", "a <img alt=SECRET width=0 height=0> b <i hidden>x</i>"
    found = {name: to_readable(page) for name, page in pages.items()}
    assert [name for name, page in found.items() if "SECRET" in page.text or not page.hidden] == []
    assert [name for name, page in found.items() if not {"a", "b"} <= set(page.text.replace("# ", "").split())] == []


def test_what_is_computed_and_does_not_hide_the_text() -> None:
    pages = {style: f"<p>a<p style='{style}'>SEEN</p>b" for style in LEFT_VISIBLE}
    pages |= {f".x {{{style}}}": f"<style>.x{{{style}}}</style><p>a<p class=x>SEEN</p>b" for style in LEFT_VISIBLE}
    body = "<div><h1>b</h1><p class=x>SEEN</p><h1>c</h1></div>"
    pages["closed"] = "<p>a<b style='display:none'>x</b><p>SEEN"
    pages["closed late"] = "<p>a<b style='display:none'>x</p></b><p>SEEN"
    pages["in a cell"] = "<table><tr><td><font color=white>x</td><td>SEEN</table>"
    pages["behind a table"] = "<table><tr><td><b hidden>x</table><p>SEEN"
    pages |= {each: f"<head><style>{each}{{display:none}}</style></head>{body}" for each in OTHERS_VISIBLE}
    hidden = [name for name, page in pages.items() if "SEEN" not in to_readable(page).text]
    assert hidden == []


def test_a_sheet_cannot_take_all_the_time() -> None:
    rules = "".join(f"div div div .a{number} * {{display:none}}" for number in range(4000))
    page = f"<style>{rules}</style>" + "<div><p class=b>x" * 20_000
    assert to_readable(page).cut
