"""What the styles of a page hide: inline styles and style elements, as far as they can be read without a browser.

Style sheets in other files, scripts and layout are not known: what only they hide is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from dragoman.builtin.web.markup import names
from dragoman.builtin.web.selectors import Compound, Node, read_selector
from dragoman.builtin.web.values import Colour, read_colour, read_length, split_arguments

# --------------------------------------------------------------------------------------------------------------------
# Declarations. Only properties that can hide a text are kept.

_KEPT: Final = names(
    "display visibility opacity font font-size color -webkit-text-fill-color background background-color "
    "background-image position left top right bottom text-indent margin margin-left margin-top margin-right clip "
    "clip-path transform translate scale filter width height max-width max-height line-height overflow overflow-x "
    "overflow-y content-visibility zoom rotate mask mask-image"
)
# Names that depend on the direction of the text, as in a text from left to right; and those with four values.
_SIDES: Final = {"inline-start": "left", "inline-end": "right", "block-start": "top", "block-end": "bottom"}
_LOGICAL: Final = {
    **{f"inset-{logical}": side for logical, side in _SIDES.items()},
    **{f"margin-{logical}": f"margin-{side}" for logical, side in _SIDES.items()},
    **{f"{most}inline-size": f"{most}width" for most in ("", "max-")},
    **{f"{most}block-size": f"{most}height" for most in ("", "max-")},
    **{"overflow-inline": "overflow-x", "overflow-block": "overflow-y", "-webkit-transform": "transform"},
    **{"-webkit-mask": "mask", "-webkit-mask-image": "mask-image", "-webkit-filter": "filter"},
    **{"-webkit-opacity": "opacity", "-webkit-clip-path": "clip-path"},
}
_SEVERAL: Final = {
    "inset": ("top", "right", "bottom", "left"),
    "inset-inline": ("left", "right"),
    "inset-block": ("top", "bottom"),
    "margin-inline": ("margin-left", "margin-right"),
    "margin-block": ("margin-top", "margin-bottom"),
}
_GLOBAL: Final = names("inherit initial unset revert revert-layer")
_DISPLAYS: Final = names(
    "none block inline inline-block flex inline-flex grid inline-grid table inline-table table-row table-cell "
    "table-column table-caption table-row-group table-header-group table-footer-group table-column-group "
    "table-column list-item contents flow-root flow run-in ruby ruby-base ruby-text math grid-lanes -webkit-box "
    "-webkit-inline-box -webkit-flex -webkit-inline-flex"
)
_KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "display": _DISPLAYS,
    "visibility": names("visible hidden collapse"),
    "content-visibility": names("visible hidden auto"),
    "position": names("static relative absolute fixed sticky -webkit-sticky"),
    **dict.fromkeys(("overflow", "overflow-x", "overflow-y"), names("visible hidden clip scroll auto overlay")),
}
_SIZES: Final = {
    **{"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0},
    **{"xx-large": 32.0, "xxx-large": 48.0},
}
_LENGTHS: Final = names(
    "opacity font-size left top right bottom text-indent margin-left margin-top margin-right width height max-width "
    "max-height line-height zoom"
)
_WORDS: Final = names(
    "auto none normal min-content max-content fit-content stretch -webkit-fill-available -moz-available hanging "
    "each-line smaller larger reset"
) | frozenset(_SIZES)
_MOST_SHEET: Final = 400_000
_MOST_RULES: Final = 4_000
_MOST_STEPS: Final = 1_000_000
_DEEPEST: Final = 8
_LONGEST_SELECTOR: Final = 2_000
_MOST_SELECTORS: Final = 64

_comment = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_escape = re.compile(r"\\([0-9a-fA-F]{1,6})[ \t\n]?|\\([^\n])")
_variable = re.compile(r"var\(\s*(--[\w-]{1,64})\s*(?:,([^()]{0,200}))?\)")

Style = dict[str, str]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _escape.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF) or 0xFFFD) if found[1] else found[2], text)


def read_declarations(text: str) -> Iterator[tuple[str, str, bool]]:
    """The name, the value and the importance of each declaration that matters; custom properties too.

    A browser ignores a value that it does not understand, and the declaration before it counts.
    """
    for part in text.split(";"):
        name, colon, value = part.partition(":")
        name = "".join(name.split())
        name = name if name.startswith("--") else _LOGICAL.get(name.lower(), name.lower())
        if not colon or not (name in _KEPT or name in _SEVERAL or name.startswith("--")):
            continue
        value = " ".join(value.lower().split())
        important = value.replace(" ", "").endswith("!important")
        value = value.rpartition("!")[0].strip() if important else value
        sides = _SEVERAL.get(name)
        for each, own in _distribute(sides, value) if sides else ((name, value),):
            if _is_valid(each, own):
                yield each, own, important


def _distribute(sides: Sequence[str], value: str) -> Iterator[tuple[str, str]]:
    """The values of several sides: those that are missing are the ones of the opposite sides."""
    values = [each for each in split_arguments(value, " ") if each] or [""]
    while len(values) < len(sides):
        values.append(values[max(0, len(values) - 2)])
    yield from zip(sides, values, strict=False)


def _is_valid(name: str, value: str) -> bool:
    if value in _GLOBAL or "var(" in value or "env(" in value:
        return True
    if name in _KEYWORDS:
        return bool(value) and all(word in _KEYWORDS[name] for word in value.split())
    if name in _LENGTHS:
        words = [each for each in split_arguments(value, " ") if each]
        return bool(words) and all(
            word in _WORDS or "(" in word or read_length(word, 1, 1) is not None for word in words
        )
    if name in ("color", "-webkit-text-fill-color", "background-color"):
        return value == "currentcolor" or read_colour(value) is not None
    return bool(value)


# --------------------------------------------------------------------------------------------------------------------
# The style elements of a page.

_WIDTH: Final = 1280.0
_width = re.compile(r"\((min|max)-width\s*:\s*([\d.]{1,8})(px|em|rem)?\s*\)")
_NOT_ON_A_SCREEN = re.compile(r"\b(?:print|speech|braille|tty|embossed)\b")


def _applies(media: str) -> bool:
    """Whether rules for a medium count on a usual screen."""
    media = media.lower()
    if not media.strip():
        return True
    return any(_applies_part(part) for part in media.split(","))


def _applies_part(part: str) -> bool:
    if _NOT_ON_A_SCREEN.search(part):
        return part.strip().startswith("not")
    for kind, number, unit in _width.findall(part):
        pixels = float(number or 0) * (16 if unit in ("em", "rem") else 1)
        if (kind == "min" and pixels > _WIDTH) or (kind == "max" and pixels < _WIDTH):
            return False
    wishes = _wish.findall(part)
    return all(wish in _USUAL_WISHES for wish in wishes) and not part.strip().startswith("not screen")


# What a visitor without settings of his own prefers.
_wish = re.compile(r"prefers-[a-z-]+\s*(?::\s*([a-z-]+))?")
_USUAL_WISHES: Final = ("light", "no-preference")


class _Rule(Struct, frozen=True):
    compounds: tuple[Compound, ...]
    signs: tuple[str, ...]
    """What stands between the compounds: a blank, or `>`; siblings are not looked at."""
    declarations: tuple[tuple[str, str, bool], ...]
    order: int
    weight: tuple[int, int, int]


_at_rule = re.compile(r"@(?:media|supports|layer|container|scope|document)(?![\w-])").match


class TooManyStyles(Exception):
    """The rules of a page cost more to apply than it is worth."""


class Sheet:
    """The rules of the style elements of a page that can hide something."""

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._rules: dict[str, list[_Rule]] = {}
        self._count = 0
        self._steps = 0
        self._known: dict[tuple[str, tuple[int, ...], Look], tuple[bool, Look]] = {}
        self.counts_from_end = False
        """Whether a selector needs the number of elements behind another one."""
        left = _MOST_SHEET
        for media, text in texts:
            if _applies(media):
                plain = _comment.sub(" ", text[:left]).replace("<!--", " ").replace("-->", " ")
                left -= len(text)
                self._read(plain, 0, ("",), 0)
            if left <= 0:
                break

    def __bool__(self) -> bool:
        return bool(self._rules)

    def _read(self, text: str, at: int, around: Sequence[str], depth: int) -> int:
        """Read rules and declarations up to the end of a block. Returns the place behind it."""
        begin, own = at, []
        while at < len(text):
            character = text[at]
            if character in "\"'":
                closing = text.find(character, at + 1)
                at = closing if closing >= 0 else len(text)
            elif character == "{":
                prelude = text[begin:at].strip()
                inner = self._around(prelude, around)
                at = self._read(text, at + 1, inner, depth + 1) if inner and depth < _DEEPEST else _skip(text, at + 1)
                begin = at
                continue
            elif character in ";}":
                own.append(text[begin:at])
                begin = at + 1
                if character == "}" and depth:
                    at += 1
                    break
            at += 1
        else:
            own.append(text[begin:])
        declared = tuple(read_declarations(_unescape(";".join(own))))
        if declared:
            self._add(around, declared)
        return at

    def _around(self, prelude: str, around: Sequence[str]) -> list[str] | None:
        """The selectors of a block in a block; None if its rules do not count."""
        if prelude.startswith("@"):
            rule = _at_rule(prelude.lower())
            if rule is None or rule[0] != "@media":
                return list(around) if rule else None
            return list(around) if _applies(prelude[rule.end() :]) else None
        if len(prelude) > _LONGEST_SELECTOR:
            return None
        selectors = [each.strip() for each in _split(_unescape(prelude))][:_MOST_SELECTORS]
        joined: list[str] = []
        for outer in around:
            for each in selectors:
                whole = each.replace("&", outer) if each.count("&") == 1 else f"{outer} {each}".strip()
                if len(whole) <= _LONGEST_SELECTOR:
                    joined.append(whole)
        return joined[:_MOST_SELECTORS]

    def _add(self, selectors: Iterable[str], declared: tuple[tuple[str, str, bool], ...]) -> None:
        # The last declaration of a property counts.
        last = {(name, important): value for name, value, important in declared}
        hiding = tuple((name, value, important) for (name, important), value in last.items())
        for selector in selectors:
            read = read_selector(selector) if selector and hiding else None
            if read is None or self._count >= _MOST_RULES:
                continue
            compounds, signs = read
            self._count += 1
            self.counts_from_end = self.counts_from_end or any(each.counts_from_end for each in compounds)
            weight = [sum(each.weight[index] for each in compounds) for index in range(3)]
            end = compounds[-1]
            key = f"#{end.id}" if end.id else f".{min(end.classes)}" if end.classes else end.name or "*"
            rule = _Rule(compounds, signs, hiding, self._count, (weight[0], weight[1], weight[2]))
            self._rules.setdefault(key, []).append(rule)

    def apply(self, node: Node, ancestors: Sequence[Node], inline: str, around: Look) -> tuple[bool, Look]:
        """Whether an element is hidden with everything in it, and how its text looks otherwise."""
        rules = self._find(node, ancestors) if self._rules else []
        if not rules and not inline:
            return False, around
        key = (inline, tuple(rule.order for rule in rules), around)
        known = self._known.get(key)
        if known is None:
            style, around = self._combine(rules, inline, around)
            known = (hides_all(style, around.size), look_of(style, around)) if style else (False, around)
            if len(self._known) < _MOST_RULES:
                self._known[key] = known
        return known

    def _find(self, node: Node, ancestors: Sequence[Node]) -> list[_Rule]:
        keys = ("*", node.name, f"#{node.id}", *(f".{each}" for each in node.classes))
        found = [rule for key in keys for rule in self._rules.get(key, ()) if self._matches(rule, node, ancestors)]
        self._steps += 8 * len(found)
        return found

    def _combine(self, rules: Sequence[_Rule], inline: str, around: Look) -> tuple[Style, Look]:
        """The declarations that count, of the rules and of the element itself, and what is inherited of variables."""
        found: list[tuple[tuple[bool, int, tuple[int, int, int], int], str, str]] = []
        for rule in rules:
            for name, value, important in rule.declarations:
                found.append(((important, 0, rule.weight, rule.order), name, value))
        for name, value, important in read_declarations(inline) if inline else ():
            found.append(((important, 1, (0, 0, 0), 0), name, value))
        found.sort(key=lambda each: each[0])
        last = {name: value for _, name, value in found}
        own = {name: value for name, value in last.items() if name.startswith("--")}
        if own:
            variables = Variables({**around.variables.values, **own})
            around = Look(around.invisible, around.size, around.colour, around.behind, variables)
        known = around.variables.values
        return {name: _resolve(value, known) for name, value in last.items() if name not in own}, around

    def _matches(self, rule: _Rule, node: Node, ancestors: Sequence[Node]) -> bool:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TooManyStyles
        if not rule.compounds[-1].matches(node):
            return False
        at = len(ancestors) - 1
        for compound, sign in zip(reversed(rule.compounds[:-1]), reversed(rule.signs), strict=True):
            while at >= 0 and sign == " " and not compound.matches(ancestors[at]):
                at -= 1
                self._steps += 1
            if at < 0 or not compound.matches(ancestors[at]):
                return False
            at -= 1
        return True


def _resolve(value: str, known: Mapping[str, str]) -> str:
    for _ in range(4):
        if "var(" not in value or len(value) > _LONGEST_SELECTOR:
            break
        value = _variable.sub(lambda each: known.get(each[1], each[2] or "").strip(), value)
    return value


def _split(text: str) -> list[str]:
    """The selectors of a list; a comma in brackets does not separate them."""
    pieces, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            pieces.append(text[begin:at])
            begin = at + 1
    return [*pieces, text[begin:]]


def _skip(text: str, at: int) -> int:
    depth = 1
    for found in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if found.group() == "{" else -1
        if not depth:
            return found.end()
    return len(text)


# --------------------------------------------------------------------------------------------------------------------
# What a style does to the text of an element.


class Variables:
    """The custom properties of an element. They are compared by identity, because they are many and rarely change."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values


_NO_VARIABLES: Final = Variables({})


class Look(Struct, frozen=True):
    """How the text of an element looks, as far as it is inherited."""

    invisible: bool = False
    size: float = 16.0
    """The size of the font, in pixels."""
    colour: Colour = (0, 0, 0, 1)
    behind: Colour | None = (255, 255, 255, 1)
    """The colour behind the text; None if it is an image."""
    variables: Variables = _NO_VARIABLES

    @property
    def is_seen(self) -> bool:
        if self.invisible or self.size < _SMALLEST or self.colour[3] < _FAINTEST:
            return False
        if self.behind is None:
            return True
        return any(abs(one - other) > _SAME for one, other in zip(self.colour[:3], self.behind[:3], strict=True))


_SMALLEST: Final = 2.0
_FAINTEST: Final = 0.05
_SAME: Final = 10.0
_FAR: Final = 900.0


def look_of(style: Style, around: Look) -> Look:
    """How the text of an element with this style looks inside another one."""
    invisible, size, colour, behind = around.invisible, around.size, around.colour, around.behind
    visibility = style.get("visibility")
    if visibility in ("hidden", "collapse", "visible"):
        invisible = visibility != "visible"
    written = style.get("font-size") or next(
        (each for each in style.get("font", "").split() if read_length(each.partition("/")[0], 1, 1) is not None), ""
    )
    found = _SIZES.get(written) or read_length(written.partition("/")[0], size, size) if written else None
    size = found if found is not None else size
    colour = read_colour(style.get("-webkit-text-fill-color", "") or style.get("color", "")) or colour
    for name in ("background", "background-color", "background-image"):
        value = style.get(name, "")
        if "url(" in value or "gradient(" in value:
            behind = _only_colour(value)
        elif name != "background-image":
            words = [value, *split_arguments(value, " ")]
            shown = next(filter(None, map(read_colour, words)), None) if value else None
            behind = shown if shown is not None and shown[3] > 0.5 else behind
    return Look(invisible, size, colour, behind, around.variables)


_gradient = re.compile(r"[a-z-]*gradient\((.*)\)", re.DOTALL).fullmatch


def _only_colour(value: str) -> Colour | None:
    """The colour of an image that has only one: a gradient whose colours are the same, or all transparent."""
    found = _gradient(value.strip())
    words = [word for part in split_arguments(found[1]) for word in split_arguments(part, " ")] if found else []
    colours = list(filter(None, map(read_colour, words)))
    spread = [max(channel) - min(channel) for channel in zip(*colours, strict=True)]
    is_clear = all(_is_nothing(each[3]) for each in colours)
    return colours[0] if colours and (is_clear or max(spread) <= _SAME) else None


def hides_all(style: Style, size: float) -> bool:
    """Whether a style hides an element with everything in it, whatever the styles inside say."""
    if style.get("display") == "none" or style.get("content-visibility") == "hidden":
        return True
    for name in ("opacity", "zoom"):
        value = read_length(style.get(name, ""), 1, 1)
        if value is not None and value < _FAINTEST:
            return True
    for name, inside in _functions.findall(style.get("filter", "")):
        amount = read_length(inside, 16, 1)
        if amount is not None and (
            (name == "opacity" and _is_nothing(amount)) or (name == "blur" and amount > _BLURRED)
        ):
            return True
    mask = _only_colour(style.get("mask-image", "") or style.get("mask", ""))
    if mask is not None and mask[3] < _FAINTEST:
        return True
    return _is_clipped(style) or _is_far_away(style, size) or _is_shrunk(style) or _is_tiny(style, size)


_BLURRED: Final = 15.0
_no_clip = re.compile(r"rect\(\s*(?:0|1px|0px)[\s,]+(?:0|1px|0px)[\s,]+(?:0|1px|0px)[\s,]+(?:0|1px|0px)")
_no_path = re.compile(
    r"inset\(\s*(?:(?:5\d|[6-9]\d|\d{3,})(?:\.\d*)?%)|circle\(\s*0(?:px|%)?[\s)]|polygon\((?:\s*0(?:px|%)?[\s,]*){2,}\)"
    r"|ellipse\(\s*0"
)


def _is_clipped(style: Style) -> bool:
    for name, inside in _functions.findall(style.get("clip-path", "")):
        first = split_arguments(inside.strip(), " ")[0]
        cut = read_length(first, 1, 100)
        if cut is not None and ((name == "inset" and "%" in first and cut >= 50) or (name == "circle" and cut <= 1)):
            return True
    return bool(_no_clip.match(style.get("clip", "")) or _no_path.match(style.get("clip-path", "")))


_functions = re.compile(r"([a-z0-9]+)\(((?:[^()]|\([^()]*\)){1,120})\)")
_edge_on = re.compile(r"\b[xy]\s+(-?\d{1,4})deg").search


def _is_shrunk(style: Style) -> bool:
    """Whether nothing is left of an element after it is scaled or turned."""
    for name, inside in _functions.findall(style.get("transform", "")):
        values = [read_length(each.removesuffix("deg"), 1, 1) for each in split_arguments(inside)]
        if name.startswith("scale") and name != "scalez" and any(_is_nothing(each) for each in values[:2]):
            return True
        if (
            name == "matrix"
            and len(values) == 6
            and all(each is not None and abs(each) < _FAINTEST for each in values[:4])
        ):
            return True
        if name in ("rotatex", "rotatey") and values[0] is not None and "deg" in inside and values[0] % 180 == 90:
            return True
    if any(_is_nothing(read_length(each, 1, 1)) for each in style.get("scale", "").split()[:2]):
        return True
    turned = _edge_on(style.get("rotate", ""))
    return turned is not None and int(turned[1]) % 180 == 90


def _is_nothing(factor: float | None) -> bool:
    return factor is not None and abs(factor) < _FAINTEST


def _is_far_away(style: Style, size: float) -> bool:
    lengths = [style.get(name, "") for name in ("text-indent", "margin-left", "margin-top", "margin-right")]
    lengths += split_arguments(style.get("margin", ""), " ")
    if style.get("position") in ("absolute", "fixed", "relative", "sticky"):
        lengths += [style.get(name, "") for name in ("left", "top", "right", "bottom")]
    else:
        lengths += [each for each in (style.get("left", ""), style.get("top", "")) if each.startswith("-")]
    for name, inside in _functions.findall(style.get("transform", "")):
        lengths += split_arguments(inside) if name.startswith("translate") else ()
    lengths += split_arguments(style.get("translate", ""), " ")
    moved = [read_length(each, size, _WIDTH) for each in lengths if each]
    if any(each is not None and (each <= -_FAR or each >= 4 * _FAR) for each in moved):
        return True
    indent = read_length(style.get("text-indent", ""), 0, 100)
    return indent is not None and indent >= 100 and "%" in style["text-indent"] and _cuts(style)


def _cuts(style: Style) -> bool:
    cut = " ".join(style.get(name, "") for name in ("overflow", "overflow-x", "overflow-y"))
    return any(word in cut for word in ("hidden", "clip", "auto", "scroll"))


def _is_tiny(style: Style, size: float) -> bool:
    if not _cuts(style):
        return False
    names = ("width", "height", "max-width", "max-height")
    found = [read_length(style[name], size, _WIDTH) for name in names if name in style]
    return (
        any(each is not None and each <= 1.0 for each in found) or read_length(style.get("line-height", ""), 1, 1) == 0
    )
