"""Finds the cases in which other libraries are ahead, for the benchmarks page."""

from collections.abc import Iterator
from operator import itemgetter

from cases import Case, handoffs, pairs
from figures import BY_NAME, Figures, Metric, p50, rate

#: Smaller differences are noise of the machine.
NOISE = 1.03


def behind(figures: Figures) -> Iterator[str]:
    """Yields every case of pairs and handoffs in which another library of one of our languages is ahead of ours in it,
    or any library is ahead of all of ours.
    """
    for case in pairs():
        least = case.callers == 1
        where = f"{plural(case.callers, 'caller')}, {plural(case.nodes, 'node')}, "
        where += "one core" if case.placement == "one" else "two cores"
        yield from lost(figures, case, where, p50 if least else rate, least)
    for case in handoffs():
        where = f"handoff, {case.processes} x {plural(case.callers, 'waiting caller')}"
        where += ", two cores" if case.placement == "two" else ""
        yield from lost(figures, case, where, p50, True)
    hold = Case("hold", "hold", callers=10_000)
    for field, what in (
        ("cpu", "CPU s of 10,000 leases"),
        ("kb", "KB per lease, with 10,000 leases"),
    ):
        yield from lost(figures, hold, what, itemgetter(field), True)


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count > 1)}"


def lost(figures: Figures, case: Case, where: str, metric: Metric, least: bool) -> Iterator[str]:
    names = [name for name in figures.names(case) if BY_NAME[name].ours]
    for language in ("Rust", "Python", "Node", "Go", "Java"):
        # For a language without a program of ours, compare with all of ours.
        ours = [name for name in names if BY_NAME[name].language == language] or names
        values = [
            value for name in ours if (value := figures.median(case, name, metric)) is not None
        ]
        best = figures.best_peer(case, metric, language, least)
        theirs = figures.median(case, best, metric) if best else None
        if not values or not theirs:
            continue
        mine = (min if least else max)(values)
        ratio = mine / theirs if least else theirs / mine
        if ratio > NOISE:
            who = "our best" if ours == names else f"our best in {language}"
            yield f"- {where}: {best} {theirs:,.2f}, {who} {mine:,.2f}, a factor of {ratio:.2f}."
