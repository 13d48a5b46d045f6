"""What the styles of a page hide: inline styles and style elements, as far as they can be read without a browser.

A selector may have types, classes, ids, attributes, `:not()`, `:is()` and positions, with descendants and children.
Style sheets in other files, scripts and layout are not known: what only they hide is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from dragoman.builtin.web.markup import names

# --------------------------------------------------------------------------------------------------------------------
# Declarations. Only properties that can hide a text are kept.

_KEPT: Final = names(
    "display visibility opacity font font-size color -webkit-text-fill-color background background-color "
    "background-image position left top right bottom text-indent margin margin-left margin-top margin-right clip "
    "clip-path transform translate scale filter width height max-width max-height line-height overflow overflow-x "
    "overflow-y content-visibility zoom"
)
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
    """The name, the value and the importance of each declaration that matters; custom properties too."""
    for part in text.split(";"):
        name, colon, value = part.partition(":")
        name = "".join(name.lower().split())
        if not colon or not (name in _KEPT or name.startswith("--")):
            continue
        value = " ".join(value.lower().split())
        important = value.replace(" ", "").endswith("!important")
        yield name, value.rpartition("!")[0].strip() if important else value, important


# --------------------------------------------------------------------------------------------------------------------
# Selectors.


class Node(NamedTuple):
    """An open element as selectors see it."""

    name: str
    id: str = ""
    classes: frozenset[str] = frozenset()
    attributes: Mapping[str, str] = {}
    place: int = 1
    """Its number among the elements of its parent."""


class _Compound(Struct, frozen=True):
    name: str = ""
    id: str = ""
    classes: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, str, str], ...] = ()
    negated: tuple[_Compound, ...] = ()
    options: tuple[tuple[_Compound, ...], ...] = ()
    position: tuple[int, int] | None = None
    """`a` and `b` of `:nth-child(an+b)`."""
    never: bool = False
    """Whether it depends on what a visitor does, or means no element."""

    def matches(self, node: Node) -> bool:
        if self.never or (self.name and self.name != node.name) or (self.id and self.id != node.id):
            return False
        if not self.classes <= node.classes or not all(_has(node, each) for each in self.attributes):
            return False
        if self.position is not None and not _is_at(node.place, *self.position):
            return False
        if any(each.matches(node) for each in self.negated):
            return False
        return all(any(each.matches(node) for each in group) for group in self.options)

    @property
    def weight(self) -> tuple[int, int, int]:
        extra = len(self.classes) + len(self.attributes) + (self.position is not None)
        return (int(bool(self.id)), extra, int(bool(self.name)))


def _has(node: Node, wanted: tuple[str, str, str]) -> bool:
    name, sign, value = wanted
    found = node.attributes.get(name)
    if found is None or not sign:
        return found is not None
    if sign == "=":
        return found == value
    if not value:
        return False
    return {
        "~=": value in found.split(),
        "|=": found == value or found.startswith(f"{value}-"),
        "^=": found.startswith(value),
        "$=": found.endswith(value),
        "*=": value in found,
    }[sign]


def _is_at(place: int, step: int, first: int) -> bool:
    if step == 0:
        return place == first
    return (place - first) % step == 0 and (place - first) // step >= 0


_part = re.compile(
    r"""(?P<name>\*|[\w-]+) | \#(?P<id>[\w-]+) | \.(?P<class>[\w-]+)
      | \[\s*(?P<attr>[\w-]+)\s*(?:(?P<sign>[~|^$*]?=)\s*(?P<value>"[^"]*"|'[^']*'|[^\s\]]+)\s*[iIsS]?)?\s*\]
      | (?P<pseudo>::?[\w-]+)(?P<inside>\([^()]*(?:\([^()]*\)[^()]*)*\))?""",
    re.VERBOSE,
)
_nth = re.compile(r"(?:(?P<a>[+-]?\d{0,4})n)?\s*(?P<b>[+-]?\s*\d{1,4})?").fullmatch
_step = re.compile(r"\s*([>+~])\s*|\s+")


def _read_compound(text: str) -> _Compound | None:
    fields: dict[str, object] = {"classes": frozenset(), "attributes": (), "negated": (), "options": ()}
    at = 0
    while at < len(text):
        found = _part.match(text, at)
        if found is None:
            return None
        at = found.end()
        if found["name"]:
            fields["name"] = "" if found["name"] == "*" else found["name"].lower()
        elif found["id"]:
            fields["id"] = found["id"]
        elif found["class"]:
            fields["classes"] = fields["classes"] | {found["class"]}  # type: ignore[operator]
        elif found["attr"]:
            value = (found["value"] or "").strip("\"'")
            fields["attributes"] = (*fields["attributes"], (found["attr"].lower(), found["sign"] or "", value))  # type: ignore[misc]
        else:
            _read_pseudo(found["pseudo"].lower(), (found["inside"] or "()")[1:-1], fields)
    return _Compound(**fields)  # type: ignore[arg-type]


def _read_pseudo(name: str, inside: str, fields: dict[str, object]) -> None:
    compounds = [_read_compound(each.strip()) for each in inside.split(",")] if inside else []
    simple = tuple(each for each in compounds if each is not None)
    if name == ":not":
        fields["negated"] = (*fields["negated"], *simple)  # type: ignore[misc]
    elif name in (":is", ":where", ":matches", ":-webkit-any"):
        fields["options"] = (*fields["options"], simple)  # type: ignore[misc]
    elif name == ":first-child":
        fields["position"] = (0, 1)
    elif name == ":nth-child":
        fields["position"] = _read_position(inside)
        fields["never"] = fields["position"] is None
    elif name not in (":root", ":link", ":any-link", ":only-child", ":first-of-type", ":nth-of-type"):
        fields["never"] = True


def _read_position(text: str) -> tuple[int, int] | None:
    text = {"odd": "2n+1", "even": "2n"}.get(text.strip().lower(), text.strip().lower())
    found = _nth(text)
    if found is None or not text:
        return None
    step = found["a"]
    first = int((found["b"] or "0").replace(" ", ""))
    return (0 if step is None else int(step + "1") if step in ("", "+", "-") else int(step)), first


class _Rule(Struct, frozen=True):
    compounds: tuple[_Compound, ...]
    signs: tuple[str, ...]
    """What stands between the compounds: a blank, or `>`; siblings are not looked at."""
    declarations: tuple[tuple[str, str, bool], ...]
    order: int
    weight: tuple[int, int, int]


def _read_selector(text: str) -> tuple[tuple[_Compound, ...], tuple[str, ...]] | None:
    pieces: list[str] = []
    signs: list[str] = []
    at = depth = begin = 0
    text = text.strip()
    while at < len(text):
        if text[at] in "([":
            depth += 1
        elif text[at] in ")]":
            depth -= 1
        found = _step.match(text, at) if depth == 0 else None
        if found and found.end() > at:
            pieces.append(text[begin:at])
            signs.append(found[1] or " ")
            at = begin = found.end()
            continue
        at += 1
    pieces.append(text[begin:])
    compounds: list[_Compound] = []
    kept: list[str] = []
    for index, piece in enumerate(pieces):
        compound = _read_compound(piece) if piece else None
        if compound is None:
            return None
        if index and signs[index - 1] in "+~":
            # The sibling before it is not looked at; what stands before that one counts.
            compounds.pop()
        elif index:
            kept.append(signs[index - 1])
        compounds.append(compound)
    return tuple(compounds), tuple(kept[-(len(compounds) - 1) :] if len(compounds) > 1 else ())


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
    return "prefers" not in part and not part.strip().startswith("not screen")


class TooManyStyles(Exception):
    """The rules of a page cost more to apply than it is worth."""


class Sheet:
    """The rules of the style elements of a page that can hide something."""

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._rules: dict[str, list[_Rule]] = {}
        self._count = 0
        self._steps = 0
        self._known: dict[tuple[str, tuple[int, ...], Look], tuple[bool, Look]] = {}
        self.variables: dict[str, str] = {}
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
            name, _, condition = prelude.partition(" ")
            if name.startswith("@media"):
                condition = prelude.removeprefix("@media")
                return list(around) if _applies(condition) else None
            return list(around) if name in ("@supports", "@layer", "@container", "@scope", "@document") else None
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
        self.variables.update({name: value for name, value, _ in declared if name.startswith("--")})
        # The last declaration of a property counts.
        last = {(name, important): value for name, value, important in declared if not name.startswith("--")}
        hiding = tuple((name, value, important) for (name, important), value in last.items())
        for selector in selectors:
            read = _read_selector(selector) if selector and hiding else None
            if read is None or self._count >= _MOST_RULES:
                continue
            compounds, signs = read
            self._count += 1
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
            style = self._combine(rules, inline)
            known = (hides_all(style, around.size), look_of(style, around)) if style else (False, around)
            if len(self._known) < _MOST_RULES:
                self._known[key] = known
        return known

    def _find(self, node: Node, ancestors: Sequence[Node]) -> list[_Rule]:
        keys = ("*", node.name, f"#{node.id}", *(f".{each}" for each in node.classes))
        found = [rule for key in keys for rule in self._rules.get(key, ()) if self._matches(rule, node, ancestors)]
        self._steps += 8 * len(found)
        return found

    def _combine(self, rules: Sequence[_Rule], inline: str) -> Style:
        """The declarations that count, of the rules and of the element itself."""
        found: list[tuple[tuple[bool, int, tuple[int, int, int], int], str, str]] = []
        for rule in rules:
            for name, value, important in rule.declarations:
                found.append(((important, 0, rule.weight, rule.order), name, value))
        for name, value, important in read_declarations(inline) if inline else ():
            found.append(((important, 1, (0, 0, 0), 0), name, value))
        found.sort(key=lambda each: each[0])
        return {name: self._resolve(value) for name, value in {name: value for _, name, value in found}.items()}

    def _resolve(self, value: str) -> str:
        for _ in range(4):
            if "var(" not in value:
                break
            value = _variable.sub(lambda each: self.variables.get(each[1], each[2] or "").strip(), value)
        return value

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


class Look(Struct, frozen=True):
    """How the text of an element looks, as far as it is inherited."""

    invisible: bool = False
    size: float = 16.0
    """The size of the font, in pixels."""
    colour: tuple[float, ...] = (0, 0, 0, 1)
    behind: tuple[float, ...] | None = (255, 255, 255, 1)
    """The colour behind the text; None if it is an image."""

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
_length = re.compile(
    r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|pc|in|cm|mm|q|em|rem|ex|ch|vw|vh|vmin|vmax|%)?"
).fullmatch
_UNITS: Final = {
    **{"": 1.0, "px": 1.0, "pt": 1.33, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.95},
    **{"rem": 16.0, "vw": 12.8, "vh": 8.0, "vmin": 8.0, "vmax": 12.8},
}
_COLOURS: Final = {
    **{"white": (255, 255, 255), "black": (0, 0, 0), "red": (255, 0, 0), "lime": (0, 255, 0), "blue": (0, 0, 255)},
    **{"green": (0, 128, 0), "yellow": (255, 255, 0), "gray": (128, 128, 128), "grey": (128, 128, 128)},
    **{"silver": (192, 192, 192), "navy": (0, 0, 128), "snow": (255, 250, 250), "ivory": (255, 255, 240)},
    **{"whitesmoke": (245, 245, 245), "ghostwhite": (248, 248, 255), "floralwhite": (255, 250, 240)},
    **{"azure": (240, 255, 255), "mintcream": (245, 255, 250), "orange": (255, 165, 0), "purple": (128, 0, 128)},
    **{"maroon": (128, 0, 0), "teal": (0, 128, 128), "aqua": (0, 255, 255), "cyan": (0, 255, 255)},
    **{"olive": (128, 128, 0), "fuchsia": (255, 0, 255), "magenta": (255, 0, 255), "lightgray": (211, 211, 211)},
}
_function = re.compile(r"rgba?\(([^()]{1,60})\)|hsla?\(([^()]{1,60})\)")
_SIZES: Final = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0}


def _pixels(value: str, size: float, whole: float) -> float | None:
    found = _length(value.strip())
    if found is None:
        return None
    number, unit = float(found[1]), found[2] or ""
    if unit in ("em", "ex", "ch"):
        return number * size * (1.0 if unit == "em" else 0.5)
    return number * whole / 100 if unit == "%" else number * _UNITS[unit]


def read_colour(value: str) -> tuple[float, ...] | None:
    """Red, green, blue and alpha; None if the value is not understood."""
    value = value.strip().lower()
    if value in _COLOURS:
        return (*_COLOURS[value], 1.0)
    if value == "transparent":
        return (0, 0, 0, 0)
    if re.fullmatch(r"#[0-9a-f]{3,8}", value) and len(value) in (4, 5, 7, 9):
        digits = value[1:] if len(value) > 5 else "".join(each * 2 for each in value[1:])
        parts = [int(digits[at : at + 2], 16) for at in range(0, len(digits), 2)]
        return (*parts[:3], parts[3] / 255 if len(parts) > 3 else 1.0)
    found = _function.fullmatch(value)
    if found is None:
        return None
    words = re.split(r"[\s,/]+", (found[1] or found[2]).strip())
    try:
        numbers = [
            float(word.rstrip("%deg")) * (2.55 if word.endswith("%") and found[1] and at < 3 else 1)
            for at, word in enumerate(words)
        ]
    except ValueError:
        return None
    if len(numbers) not in (3, 4):
        return None
    alpha = numbers[3] / (100 if words[3].endswith("%") else 1) if len(numbers) == 4 else 1.0
    return (*(numbers[:3] if found[1] else _from_hsl(*numbers[:3])), alpha)


def _from_hsl(hue: float, saturation: float, light: float) -> tuple[float, float, float]:
    from colorsys import hls_to_rgb

    red, green, blue = hls_to_rgb(hue % 360 / 360, min(light, 100) / 100, min(saturation, 100) / 100)
    return red * 255, green * 255, blue * 255


def look_of(style: Style, around: Look) -> Look:
    """How the text of an element with this style looks inside another one."""
    invisible, size, colour, behind = around.invisible, around.size, around.colour, around.behind
    visibility = style.get("visibility")
    if visibility in ("hidden", "collapse", "visible"):
        invisible = visibility != "visible"
    written = style.get("font-size") or next(
        (each for each in style.get("font", "").split() if _length(each.partition("/")[0])), ""
    )
    found = _SIZES.get(written) or _pixels(written.partition("/")[0], size, size) if written else None
    size = found if found is not None else size
    colour = read_colour(style.get("-webkit-text-fill-color", "") or style.get("color", "")) or colour
    for name in ("background", "background-color", "background-image"):
        value = style.get(name, "")
        if "url(" in value or "gradient(" in value:
            behind = None
        elif name != "background-image":
            shown = next(filter(None, map(read_colour, [value, *value.split()])), None) if value else None
            behind = shown if shown is not None and shown[3] > 0.5 else behind
    return Look(invisible, size, colour, behind)


def hides_all(style: Style, size: float) -> bool:
    """Whether a style hides an element with everything in it, whatever the styles inside say."""
    if style.get("display") == "none" or style.get("content-visibility") == "hidden" or style.get("zoom") == "0":
        return True
    opacity = _pixels(style.get("opacity", ""), 1, 1)
    if opacity is not None and opacity < _FAINTEST:
        return True
    if re.search(r"opacity\((?:0+(?:\.0*)?%?|\.0+)\)", style.get("filter", "")):
        return True
    return _is_clipped(style, size) or _is_far_away(style, size) or _is_tiny(style, size)


_no_clip = re.compile(r"rect\(\s*(?:0|1px|0px)[\s,]+(?:0|1px|0px)[\s,]+(?:0|1px|0px)[\s,]+(?:0|1px|0px)")
_no_path = re.compile(
    r"inset\(\s*(?:(?:5\d|[6-9]\d|\d{3,})(?:\.\d*)?%)|circle\(\s*0(?:px|%)?[\s)]|polygon\((?:\s*0(?:px|%)?[\s,]*){2,}\)"
    r"|ellipse\(\s*0"
)


def _is_clipped(style: Style, size: float) -> bool:
    return bool(_no_clip.match(style.get("clip", "")) or _no_path.match(style.get("clip-path", "")))


_moves = re.compile(r"translate(?:x|y|3d)?\(([^()]{1,80})\)")
_scales = re.compile(r"scale(?:x|y|3d)?\(\s*(?:0+(?:\.0*)?|\.0+)\s*[,)]")


def _is_far_away(style: Style, size: float) -> bool:
    lengths = [style.get(name, "") for name in ("text-indent", "margin-left", "margin-top", "margin-right")]
    lengths += style.get("margin", "").split()
    if style.get("position") in ("absolute", "fixed", "relative", "sticky"):
        lengths += [style.get(name, "") for name in ("left", "top", "right", "bottom")]
    else:
        lengths += [each for each in (style.get("left", ""), style.get("top", "")) if each.startswith("-")]
    transform = f"{style.get('transform', '')} {style.get('scale', '') and 'scale(' + style['scale'] + ')'}"
    lengths += [each for found in _moves.findall(transform) for each in found.split(",")]
    lengths += style.get("translate", "").split()
    if _scales.search(transform):
        return True
    moved = [_pixels(each, size, _WIDTH) for each in lengths if each]
    return any(each is not None and (each <= -_FAR or each >= 4 * _FAR) for each in moved)


def _is_tiny(style: Style, size: float) -> bool:
    cut = " ".join(style.get(name, "") for name in ("overflow", "overflow-x", "overflow-y"))
    if "hidden" not in cut and "clip" not in cut:
        return False
    names = ("width", "height", "max-width", "max-height")
    found = [_pixels(style[name], size, _WIDTH) for name in names if name in style]
    return any(each is not None and each <= 1.0 for each in found) or _pixels(style.get("line-height", ""), 1, 1) == 0
