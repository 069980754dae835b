"""Draws charts as SVG that are legible on light and dark pages and in a README."""

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

#: Colours with enough contrast on white and on black. The text uses the reader's theme, or grey if none is known.
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #6e7781 }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 11px }
.grid { stroke: #8b949e; stroke-opacity: .35 }
.ours { fill: #2f81f7 } .peer { fill: #8b949e } .floor { fill: #d29922 }
polyline { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: light) { text { fill: #24292f } }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
</style>"""
WIDTH, LEFT, RIGHT, ROW = 760, 200, 90, 24
LINES = ("#d29922", "#2f81f7", "#3fb950", "#db61a2", "#8b949e")


@dataclass
class Bar:
    name: str
    value: float
    #: The text after the bar.
    text: str
    #: One of ours, peer and floor.
    kind: str


def svg(height: int, title: str, body: list[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    label = f'<title>{escape(title)}</title><text class="title" x="8" y="22">{escape(title)}</text>'
    return "\n".join([head, STYLE, label, *body, "</svg>"]) + "\n"


def bars(path: Path, title: str, rows: list[Bar], logarithmic: bool = False) -> None:
    """Draws horizontal bars, the longest last. On a logarithmic scale each factor of ten has the same length."""
    rows = sorted(rows, key=lambda bar: bar.value)
    most = max(bar.value for bar in rows)
    least = min(bar.value for bar in rows)
    room = WIDTH - LEFT - RIGHT

    def length(value: float) -> float:
        if not logarithmic:
            return value / most * room
        # The shortest bar stays visible.
        return (math.log10(value / least) + 0.15) / (math.log10(most / least) + 0.15) * room

    body = []
    for number, bar in enumerate(rows):
        top = 36 + number * ROW
        body += [
            f'<text x="{LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect class="{bar.kind}" x="{LEFT}" y="{top}" height="{ROW - 6}" rx="2" '
            f'width="{length(bar.value):.1f}"/>',
            f'<text x="{LEFT + length(bar.value) + 6:.1f}" y="{top + 14}">{escape(bar.text)}</text>',
        ]
    path.write_text(svg(44 + len(rows) * ROW, title, body))


def lines(
    path: Path, title: str, series: dict[str, list[tuple[float, float]]], across: str
) -> None:
    """Draws lines on two logarithmic axes, where proportional growth is a straight line."""
    points = [point for each in series.values() for point in each]
    low_x, high_x = (f(x for x, _ in points) for f in (min, max))
    low_y, high_y = (
        10 ** math.floor(math.log10(min(y for _, y in points))),
        max(y for _, y in points) * 1.1,
    )
    bottom, top, left, right = 300, 44, 70, WIDTH - 150

    def at(x: float, y: float) -> tuple[float, float]:
        share_x = math.log(x / low_x) / math.log(high_x / low_x)
        share_y = math.log(y / low_y) / math.log(high_y / low_y)
        return left + share_x * (right - left), bottom - share_y * (bottom - top)

    body = []
    for x in sorted({x for x, _ in points}):
        place, _ = at(x, low_y)
        body.append(
            f'<text class="small" x="{place:.0f}" y="{bottom + 18}" text-anchor="middle">{x:,.0f}</text>'
        )
    tick = low_y
    while tick <= high_y:
        _, place = at(low_x, tick)
        body.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{place:.1f}" y2="{place:.1f}"/>'
        )
        body.append(
            f'<text class="small" x="{left - 6}" y="{place + 4:.1f}" text-anchor="end">{tick:,.0f}</text>'
        )
        tick *= 10
    ends = sorted((at(*each[-1])[1], name) for name, each in series.items())
    labels: dict[str, float] = {}
    for place, name in ends:
        # Labels do not overlap, even where the lines meet.
        labels[name] = max(place, max(labels.values(), default=0) + 15)
    for (name, each), colour in zip(series.items(), LINES, strict=False):
        path_points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in each))
        body.append(f'<polyline stroke="{colour}" points="{path_points}"/>')
        body += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
            for x, y in (at(*p) for p in each)
        ]
        body.append(
            f'<circle cx="{right + 12}" cy="{labels[name] - 1:.1f}" r="4" fill="{colour}"/>'
        )
        body.append(
            f'<text class="small" x="{right + 20}" y="{labels[name] + 3:.1f}">{escape(name)}</text>'
        )
    body.append(
        f'<text class="small" x="{(left + right) / 2}" y="{bottom + 38}" text-anchor="middle">{escape(across)}</text>'
    )
    path.write_text(svg(bottom + 50, title, body))
