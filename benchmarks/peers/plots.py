"""Small bar and line charts as SVG, readable on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 720
_BAR, _GAP, _LEFT, _RIGHT = 20, 8, 170, 90
# The background is part of the picture, so it is readable whatever page it stands on.
_STYLE = """<style>
.back{fill:#fff}.text{fill:#24292f;font:13px sans-serif}.dim{fill:#57606a;font:12px sans-serif}
.line{stroke:#d0d7de;stroke-width:1}.ours{fill:#0969da}.other{fill:#8c959f}
.c0{stroke:#0969da;fill:#0969da}.c1{stroke:#bc4c00;fill:#bc4c00}.c2{stroke:#1a7f37;fill:#1a7f37}
.c3{stroke:#8250df;fill:#8250df}.c4{stroke:#bf3989;fill:#bf3989}.c5{stroke:#57606a;fill:#57606a}
@media (prefers-color-scheme:dark){.back{fill:#0d1117}.text{fill:#e6edf3}.dim{fill:#9198a1}.line{stroke:#3d444d}
.ours{fill:#4493f8}.other{fill:#6e7681}.c0{stroke:#4493f8;fill:#4493f8}.c1{stroke:#f0883e;fill:#f0883e}
.c2{stroke:#3fb950;fill:#3fb950}.c3{stroke:#ab7df8;fill:#ab7df8}.c4{stroke:#db61a2;fill:#db61a2}
.c5{stroke:#9198a1;fill:#9198a1}}
</style>"""
COLOURS = 6


def bars(title: str, values: Mapping[str, float], ours: Sequence[str], unit: str = "") -> str:
    """A horizontal bar for each value."""
    most = max(values.values(), default=1.0) or 1.0
    scale = (WIDTH - _LEFT - _RIGHT) / most
    height = 44 + len(values) * (_BAR + _GAP)
    parts = [_text(12, 24, title, "text")]
    for number, (name, value) in enumerate(values.items()):
        top = 38 + number * (_BAR + _GAP)
        kind = "ours" if name in ours else "other"
        parts += [
            _text(_LEFT - 8, top + 15, name, "text", "end"),
            f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{value * scale + 1:.1f}" height="{_BAR}" rx="2"/>',
            _text(_LEFT + value * scale + 6, top + 15, f"{short(value)}{unit}", "dim"),
        ]
    return _picture(title, height, parts)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> str:
    """Lines over logarithmic axes, with a legend."""
    points = [point for line in series.values() for point in line]
    if not points:
        return _picture(title, 60, [_text(12, 24, title, "text")])
    left, right = (f(math.log10(x) for x, _ in points) for f in (min, max))
    low, high = (f(math.log10(max(y, 1e-9)) for _, y in points) for f in (min, max))
    low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    height, top, floor = 360, 60, 310
    legend = 220

    def place(x: float, y: float) -> tuple[float, float]:
        across = 70 + (math.log10(x) - left) / ((right - left) or 1) * (WIDTH - 70 - legend)
        return across, floor - (math.log10(max(y, 1e-9)) - low) / (high - low) * (floor - top)

    parts = [_text(12, 24, title, "text"), _text(12, 46, up, "dim"), _text(WIDTH - legend, height - 12, across, "dim")]
    for power in range(low, high + 1):
        y = place(10**left, 10.0**power)[1]
        parts += [f'<line class="line" x1="70" y1="{y:.0f}" x2="{WIDTH - legend}" y2="{y:.0f}"/>']
        parts += [_text(62, y + 4, short(10.0**power), "dim", "end")]
    for x in sorted({x for x, _ in points}):
        parts.append(_text(place(x, 1)[0], floor + 20, f"{x:,.0f}", "dim", "middle"))
    for number, (name, line) in enumerate(series.items()):
        kind = f"c{number % COLOURS}"
        dots = [place(x, y) for x, y in line]
        track = " ".join(f"{x:.0f},{y:.0f}" for x, y in dots)
        parts.append(f'<polyline class="{kind}" style="fill:none;stroke-width:2" points="{track}"/>')
        parts += [f'<circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" r="3"/>' for x, y in dots]
        y = 70 + number * 22
        parts += [f'<rect class="{kind}" x="{WIDTH - legend + 20}" y="{y - 10}" width="12" height="12"/>']
        parts += [_text(WIDTH - legend + 38, y, name, "text")]
    return _picture(title, height, parts)


def short(value: float) -> str:
    """A number with as many digits as a reader needs."""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def _picture(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    back = f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", _STYLE, back, *parts, "</svg>"]) + "\n"
