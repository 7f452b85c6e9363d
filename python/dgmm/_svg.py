"""Small SVG charts for self-contained pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 34, 46
INK, GREY, BLUE = "#222", "#8a8f98", "#2f6db3"


def line_chart(title: str, x: Sequence[float], y: Sequence[float], x_name: str, y_name: str) -> str:
    """Draw y against x as a line with points."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if not points:
        return _frame(title, ['<text x="230" y="135" text-anchor="middle">nothing to show</text>'])
    across = _Scale([a for a, _ in points], LEFT, WIDTH - RIGHT, whole=True)
    up = _Scale([b for _, b in points], HEIGHT - BOTTOM, TOP)
    parts = _axes(across, up, x_name, y_name)
    path = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    if len(points) <= 100:
        parts += [f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="2.5" fill="{BLUE}"/>' for a, b in points]
    return _frame(title, parts)


def bar_chart(
    title: str, names: Sequence[str], groups: dict[str, Sequence[float]], words: Callable[[float], str]
) -> str:
    """Draw horizontal bars, one per name and group, each with its formatted value."""
    colors = [BLUE, GREY]
    most = max((value for values in groups.values() for value in values), default=0) or 1
    left, right = 80, 96
    step = (HEIGHT - TOP - 30) / max(1, len(names))
    thick = min(22.0, 0.8 * step / len(groups))
    parts = []
    for row, name in enumerate(names):
        middle = TOP + step * (row + 0.5)
        parts.append(_text(left - 8, middle + 4, name, "end"))
        for place, values in enumerate(groups.values()):
            y = middle + (place - len(groups) / 2) * thick
            length = values[row] / most * (WIDTH - left - right)
            parts.append(_rect(left, y + 1, length, thick - 2, colors[place]))
            parts.append(_text(left + length + 5, y + thick / 2 + 4, words(values[row])))
    if len(groups) > 1:
        for place, name in enumerate(groups):
            parts.append(_rect(left + 150 * place, HEIGHT - 20, 10, 10, colors[place]))
            parts.append(_text(left + 150 * place + 15, HEIGHT - 11, name))
    return _frame(title, parts)


def column_chart(title: str, names: Sequence[str], values: Sequence[float], x_name: str, y_name: str) -> str:
    """Draw vertical bars, with as many names as there is space for."""
    up = _Scale([0, *values, 1], HEIGHT - BOTTOM, TOP, whole=True)
    parts = _axes(None, up, x_name, y_name)
    step = (WIDTH - LEFT - RIGHT) / max(1, len(names))
    every = math.ceil(max((len(name) for name in names), default=1) * 7 / step)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        left = LEFT + step * place
        parts.append(_rect(left + 1, up(value), step - 2, up(0) - up(value), BLUE))
        if place % every == 0:
            parts.append(_text(left + step / 2, HEIGHT - BOTTOM + 15, name, "middle"))
    return _frame(title, parts)


class _Scale:
    """Maps values to positions on the page, and has ticks at round numbers."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, whole: bool = False) -> None:
        low, high = min(values), max(values)
        if low == high:
            pad = 0.5 if whole else abs(low) / 1000 or 1.0
            low, high = low - pad, high + pad
        self._low, self._high, self._start, self._end = low, high, start, end
        rough = (high - low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough)
        self.step = max(step, 1.0) if whole else step
        first, last = math.ceil(low / self.step), math.floor(high / self.step)
        self.ticks = [k * self.step for k in range(first, last + 1)]

    def __call__(self, value: float) -> float:
        return self._start + (value - self._low) / (self._high - self._low) * (self._end - self._start)

    def words(self, tick: float) -> str:
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        return f"{tick:,.{digits}f}" if digits < 6 and abs(tick) < 1e7 else f"{tick:.6g}"


def _axes(across: _Scale | None, up: _Scale, x_name: str, y_name: str) -> list[str]:
    parts = []
    for tick in up.ticks:
        y = up(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e6ea"/>')
        parts.append(_text(LEFT - 6, y + 4, up.words(tick), "end"))
    base = HEIGHT - BOTTOM
    if across is not None:
        parts += [_text(across(tick), base + 15, across.words(tick), "middle") for tick in across.ticks]
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}" stroke="{INK}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_name, "middle"))
    middle = (TOP + base) / 2
    turned = f'transform="rotate(-90 13 {middle})"'
    parts.append(f'<text x="13" y="{middle}" text-anchor="middle" {turned}>{escape(y_name)}</text>')
    return parts


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def _frame(title: str, parts: Sequence[str]) -> str:
    bold = 'text-anchor="middle" font-size="13" font-weight="600"'
    heading = f'<text x="{WIDTH / 2}" y="18" {bold}>{escape(title)}</text>'
    style = f'font-family="system-ui, sans-serif" font-size="11" fill="{INK}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {style}>'
    return "".join([opening, f"<title>{escape(title)}</title>", heading, *parts, "</svg>"])
