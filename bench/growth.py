"""Describes the shape of each curve in words that are derived from the figures."""

from itertools import pairwise

from cases import CALLERS, CURVES, LEASES, NODES, Case
from figures import Figures, p50, rate
from tables import shown, table

Curve = list[tuple[float, float]]


def caller_curves(figures: Figures) -> dict[str, Curve]:
    return {
        name: curve(figures, name, [(n, Case("callers", callers=n)) for n in CALLERS], by_rate=True)
        for name in CURVES
    }


def node_curves(figures: Figures) -> dict[str, Curve]:
    return {
        name: curve(figures, name, [(n, Case("nodes", nodes=n)) for n in NODES], by_rate=False)
        for name in CURVES
    }


def curve(figures: Figures, name: str, cases: list[tuple[int, Case]], by_rate: bool) -> Curve:
    taken = [(count, figures.median(case, name, rate if by_rate else p50)) for count, case in cases]
    return [(float(count), value) for count, value in taken if value is not None]


def callers_in_words(name: str, points: Curve) -> str:
    peak_at, peak = max(points, key=lambda point: point[1])
    last_at, last = points[-1]
    share = last / peak * 100
    fate = "stays there" if share >= 90 else f"falls to {share:.0f} % of that"
    end = "" if peak_at == last_at else f", and {fate} up to {last_at:,.0f}"
    shape = "still grows at" if peak_at == last_at else "grows up to"
    most = f"{peak:,.0f} pairs/s, {peak / points[0][1]:.1f} times one caller's"
    return f"- {name}: {shape} {peak_at:,.0f} callers ({most}){end}."


def nodes_in_words(name: str, points: Curve) -> str:
    steps = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(points)]
    if not steps:
        return f"- {name}: one point."
    least, most = min(steps), max(steps)
    line = "linear" if least > 0 and most <= 1.5 * least else "not linear"
    return f"- {name}: each further node adds {least:.1f} to {most:.1f} µs ({line})."


def leases_table(figures: Figures) -> str:
    rows = []
    for count in LEASES:
        case = Case("hold" if count == 10_000 else "leases", "hold", callers=count)
        seconds = 15 if count == 10_000 else 12

        def each(field: str, case: Case = case) -> float | None:
            return figures.median(case, "redlock, Rust", lambda sample: sample[field])

        cpu = each("cpu")
        per = None if cpu is None else cpu / count / seconds * 1e6
        taken = each("taken_s")
        cells = [
            shown(per, "{:.2f}"),
            shown(each("kb"), "{:.2f}"),
            shown(taken and taken / count * 1e6, "{:.0f}"),
        ]
        rows.append([f"{count:,}", *cells, shown(each("lost"), "{:.0f}")])
    return table(
        ["leases", "CPU µs per lease and second", "KB per lease", "µs to acquire one", "lost"], rows
    )


def in_words(figures: Figures) -> str:
    callers = [
        callers_in_words(name, points) for name, points in caller_curves(figures).items() if points
    ]
    nodes = [
        nodes_in_words(name, points) for name, points in node_curves(figures).items() if points
    ]
    return "\n".join(["Callers, one node:", "", *callers, "", "Nodes, one caller:", "", *nodes, ""])
