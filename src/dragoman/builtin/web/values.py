"""Values of style sheets: lengths with arithmetic, and colours in every notation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

# --------------------------------------------------------------------------------------------------------------------
# Lengths, in pixels. `calc()` and its relatives are computed.

_NUMBER: Final = r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?:e[+-]?\d{1,2})?"
_length = re.compile(rf"({_NUMBER})(px|pt|pc|in|cm|mm|q|em|rem|ex|ch|lh|[sld]?v(?:w|h|min|max|i|b)|%)?").fullmatch
_UNITS: Final = {
    **{"": 1.0, "px": 1.0, "pt": 1.33, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.95, "rem": 16.0},
    **{"vw": 12.8, "vh": 8.0, "vmin": 8.0, "vmax": 12.8, "vi": 12.8, "vb": 8.0},
}
_RELATIVE: Final = {"em": 1.0, "ex": 0.5, "ch": 0.5, "lh": 1.2}
_operand = re.compile(rf"\s*(?:(?P<function>-?[a-z][a-z-]*)?\(|(?P<number>{_NUMBER}(?:[a-z]+|%)?))").match
_operator = re.compile(r"\s*([-+*/),])").match
_FUNCTIONS: Final[dict[str, Callable[[list[float]], float]]] = {
    "": lambda values: values[0],
    "calc": lambda values: values[0],
    "-webkit-calc": lambda values: values[0],
    "min": min,
    "max": max,
    "clamp": lambda values: max(values[0], min(values[1], values[2])),
    "abs": lambda values: abs(values[0]),
    "round": lambda values: values[0],
}
_LONGEST: Final = 300
_DEEPEST: Final = 12


def read_length(value: str, size: float, whole: float) -> float | None:
    """A length in pixels: `size` is the size of the font, `whole` is what a percentage refers to; None if unknown."""
    value = value.strip()
    found = _length(value)
    if found is not None:
        number, unit = float(found[1]), found[2] or ""
        if unit in _RELATIVE:
            return number * size * _RELATIVE[unit]
        return number * whole / 100 if unit == "%" else number * _UNITS.get(unit, 0) or number * _UNITS.get(unit[1:], 1)
    if "(" not in value or len(value) > _LONGEST:
        return None
    try:
        return _Expression(value, size, whole).read()
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None


class _Expression:
    def __init__(self, text: str, size: float, whole: float) -> None:
        self._text, self._size, self._whole = text, size, whole
        self._at = self._depth = 0

    def read(self) -> float:
        value = self._factor()
        if self._text[self._at :].strip() or not math.isfinite(value):
            raise ValueError
        return value

    def _take_sign(self, wanted: str) -> str:
        """The next sign, if it is one of these; else nothing."""
        found = _operator(self._text, self._at)
        if found is None or found[1] not in wanted:
            return ""
        self._at = found.end()
        return found[1]

    def _sum(self) -> float:
        value = self._product()
        while sign := self._take_sign("+-"):
            other = self._product()
            value += other if sign == "+" else -other
        return value

    def _product(self) -> float:
        value = self._factor()
        while sign := self._take_sign("*/"):
            other = self._factor()
            value = value * other if sign == "*" else value / other
        return value

    def _factor(self) -> float:
        self._depth += 1
        found = _operand(self._text, self._at)
        if self._depth > _DEEPEST or found is None:
            raise ValueError
        self._at = found.end()
        number = found["number"]
        value = read_length(number, self._size, self._whole) if number else self._call(found["function"] or "")
        if value is None:
            raise ValueError
        self._depth -= 1
        return value

    def _call(self, name: str) -> float:
        values = [self._sum()]
        while self._take_sign(","):
            values.append(self._sum())
        if not self._take_sign(")") or name not in _FUNCTIONS:
            raise ValueError
        return _FUNCTIONS[name](values)


# --------------------------------------------------------------------------------------------------------------------
# Colours: red, green and blue from 0 to 255, and alpha.

Colour = tuple[float, ...]

_NAMED: Final = """
aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc bisque ffe4c4 black 000000
blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00
chocolate d2691e coral ff7f50 cornflowerblue 6495ed cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b darkcyan
008b8b darkgoldenrod b8860b darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b darkmagenta 8b008b
darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000 darksalmon e9967a darkseagreen 8fbc8f
darkslateblue 483d8b darkslategray 2f4f4f darkslategrey 2f4f4f darkturquoise 00ced1 darkviolet 9400d3 deeppink ff1493
deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick b22222 floralwhite fffaf0 forestgreen
228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold ffd700 goldenrod daa520 gray 808080 green 008000
greenyellow adff2f grey 808080 honeydew f0fff0 hotpink ff69b4 indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c
lavender e6e6fa lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080 lightcyan
e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey d3d3d3 lightpink ffb6c1 lightsalmon
ffa07a lightseagreen 20b2aa lightskyblue 87cefa lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de
lightyellow ffffe0 lime 00ff00 limegreen 32cd32 linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa
mediumblue 0000cd mediumorchid ba55d3 mediumpurple 9370db mediumseagreen 3cb371 mediumslateblue 7b68ee mediumspringgreen
00fa9a mediumturquoise 48d1cc mediumvioletred c71585 midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 moccasin
ffe4b5 navajowhite ffdead navy 000080 oldlace fdf5e6 olive 808000 olivedrab 6b8e23 orange ffa500 orangered ff4500 orchid
da70d6 palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee palevioletred db7093 papayawhip ffefd5 peachpuff
ffdab9 peru cd853f pink ffc0cb plum dda0dd powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown
bc8f8f royalblue 4169e1 saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee sienna a0522d
silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey 708090 snow fffafa springgreen 00ff7f steelblue
4682b4 tan d2b48c teal 008080 thistle d8bfd8 tomato ff6347 turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff
whitesmoke f5f5f5 yellow ffff00 yellowgreen 9acd32 canvas ffffff canvastext 000000
"""
_COLOURS: Final = dict(zip(_NAMED.split()[::2], _NAMED.split()[1::2], strict=True))
_hexadecimal = re.compile(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})").fullmatch
_function = re.compile(r"([a-z-]+)\((.*)\)", re.DOTALL).fullmatch
_separators = re.compile(r"[\s,/]+")
_percentage = re.compile(r"\s(\d{1,3}(?:\.\d{1,9})?)%\Z").search


def read_colour(value: str, depth: int = 0) -> Colour | None:
    """Red, green, blue and alpha; None if the value is no colour."""
    value = value.strip().lower()
    if value in _COLOURS:
        value = f"#{_COLOURS[value]}"
    if value == "transparent":
        return (0, 0, 0, 0)
    if _hexadecimal(value):
        digits = value[1:] if len(value) > 5 else "".join(each * 2 for each in value[1:])
        parts = [int(digits[at : at + 2], 16) for at in range(0, len(digits), 2)]
        return (*parts[:3], parts[3] / 255 if len(parts) > 3 else 1.0)
    found = _function(value) if len(value) <= _LONGEST and depth < 4 else None
    if found is None:
        return None
    name, inside = found[1], found[2]
    if name == "light-dark":
        return read_colour(split_arguments(inside)[0], depth + 1)
    if name == "color-mix":
        return _mix(split_arguments(inside)[1:], depth)
    if inside.strip().startswith("from "):
        return _read_relative(inside.strip().removeprefix("from "), depth)
    try:
        return _read_channels(name, inside)
    except (ValueError, IndexError, OverflowError):
        return None


def split_arguments(text: str, separator: str = ",") -> list[str]:
    """The arguments of a function; a separator in brackets does not count."""
    pieces, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            pieces.append(text[begin:at].strip())
            begin = at + 1
    return [*pieces, text[begin:].strip()]


def _mix(parts: list[str], depth: int) -> Colour | None:
    """Two colours mixed. The space is not looked at: two colours that look alike are alike in every space."""
    if len(parts) != 2:
        return None
    shares = [_percentage(part) for part in parts]
    colours = [
        read_colour(part[: share.start()] if share else part, depth + 1)
        for part, share in zip(parts, shares, strict=True)
    ]
    if colours[0] is None or colours[1] is None:
        return None
    given = [float(share[1]) / 100 if share else None for share in shares]
    first = given[0] if given[0] is not None else 1 - given[1] if given[1] is not None else 0.5
    return tuple(one * first + other * (1 - first) for one, other in zip(*colours, strict=True))


def _read_relative(inside: str, depth: int) -> Colour | None:
    """A colour made of another one. Its channels are taken as they are; only a new alpha counts."""
    words = split_arguments(inside, " ")
    base = read_colour(words[0], depth + 1)
    if base is None or "/" not in inside:
        return base
    alpha = read_length(inside.rpartition("/")[2], 1, 1)
    return base if alpha is None else (*base[:3], alpha)


def _read_channels(name: str, inside: str) -> Colour | None:
    words = [word for word in _separators.split(inside.strip()) if word]
    if name == "color":
        words = words[1:]
    if len(words) not in (3, 4):
        return None
    alpha = _channel(words[3], 1.0) if len(words) == 4 else 1.0
    if name in ("rgb", "rgba"):
        return (*(_channel(word, 255.0) for word in words[:3]), alpha)
    if name == "color":
        return (*(255 * _channel(word, 1.0) for word in words[:3]), alpha)
    if name in ("hsl", "hsla", "hwb"):
        hue, one, two = _angle(words[0]), *(_channel(word, 100.0) for word in words[1:3])
        return (*(_from_hsl(hue, one, two) if name != "hwb" else _from_hwb(hue, one, two)), alpha)
    if name in ("lab", "lch", "oklab", "oklch"):
        is_ok = name.startswith("ok")
        light, reach = _channel(words[0], 1.0 if is_ok else 100.0), 0.4 if is_ok else 125.0
        one, two = _channel(words[1], reach), _channel(words[2], reach) if name.endswith("lab") else _angle(words[2])
        if name.endswith("lch"):
            one, two = one * math.cos(math.radians(two)), one * math.sin(math.radians(two))
        return (*(_from_oklab if is_ok else _from_lab)(light, one, two), alpha)
    return None


def _channel(word: str, whole: float) -> float:
    if word == "none":
        return 0.0
    return float(word[:-1]) * whole / 100 if word.endswith("%") else float(word)


def _angle(word: str) -> float:
    for unit, degrees in (("deg", 1.0), ("grad", 0.9), ("rad", 180 / math.pi), ("turn", 360.0)):
        if word.endswith(unit):
            return float(word.removesuffix(unit)) * degrees
    return _channel(word, 360.0)


def _from_hsl(hue: float, saturation: float, light: float) -> tuple[float, float, float]:
    from colorsys import hls_to_rgb

    red, green, blue = hls_to_rgb(hue % 360 / 360, min(max(light, 0), 100) / 100, min(max(saturation, 0), 100) / 100)
    return red * 255, green * 255, blue * 255


def _from_hwb(hue: float, white: float, black: float) -> tuple[float, float, float]:
    if white + black >= 100:
        grey = 255 * white / (white + black)
        return grey, grey, grey
    red, green, blue = (each * (100 - white - black) / 100 + 2.55 * white for each in _from_hsl(hue, 100, 50))
    return red, green, blue


def _from_oklab(light: float, a: float, b: float) -> tuple[float, float, float]:
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return _from_linear(
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _from_lab(light: float, a: float, b: float) -> tuple[float, float, float]:
    middle = (light + 16) / 116
    x, y, z = (
        white * (each**3 if each**3 > 0.008856 else (116 * each - 16) / 903.3)
        for white, each in ((0.96422, middle + a / 500), (1.0, middle), (0.82521, middle - b / 200))
    )
    return _from_linear(
        3.1338561 * x - 1.6168667 * y - 0.4906146 * z,
        -0.9787684 * x + 1.9161415 * y + 0.0334540 * z,
        0.0719453 * x - 0.2289914 * y + 1.4052427 * z,
    )


def _from_linear(*channels: float) -> tuple[float, float, float]:
    red, green, blue = (
        255 * (12.92 * each if each <= 0.0031308 else 1.055 * each ** (1 / 2.4) - 0.055)
        for each in (min(max(channel, 0.0), 1.0) for channel in channels)
    )
    return red, green, blue
