"""Writes docs/benchmarks.md, its charts and bench/results.md from a run, and prints which goals it met.

`--dry`: only prints the goals of a quick run.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import growth
import tables
from behind import behind
from cases import Case
from charts import Bar, bars, lines
from compare import QUICK, RESULTS
from figures import BY_NAME, Figures, p50, rate
from goals import goals
from programs import ROOT

DOCS, BENCH = ROOT / "docs", Path(__file__).parent
#: The text of each page, and where it goes.
PAGES = {BENCH / "page.md": DOCS / "benchmarks.md", BENCH / "tables.md": BENCH / "results.md"}


def goal_table(figures: Figures) -> str:
    return tables.table(["goal", "limit", "measured", ""], [goal.row() for goal in goals(figures)])


def draw(figures: Figures) -> None:
    one, many = Case("pairs"), Case("pairs", callers=64)
    rows = chart_rows(figures, one, lambda name: figures.ratio(one, name, p50), "{:.2f} x")
    bars(
        DOCS / "benchmarks-one.svg",
        "One caller, one node: time of a pair relative to the floor (less is better)",
        rows,
    )
    rows = chart_rows(
        figures, many, lambda name: percent(figures.ratio(many, name, rate)), "{:.0f} %"
    )
    bars(
        DOCS / "benchmarks-many.svg",
        "64 callers, one node: pairs per second, % of the pipelined floor (more is better)",
        rows,
    )
    five = Case("pairs", nodes=5)
    rows = chart_rows(figures, five, lambda name: figures.ratio(five, name, p50), "{:.2f} x")
    bars(
        DOCS / "benchmarks-five.svg",
        "One caller, 5 nodes: time of a pair relative to the floor (less is better)",
        rows,
    )
    handoff = Case("handoff", "handoff", callers=8, processes=2)
    rows = chart_rows(
        figures, handoff, lambda name: milliseconds(figures.median(handoff, name, p50)), "{:.2f} ms"
    )
    if rows:
        title = (
            "Handoff to one of 16 waiting callers in 2 processes, ms, logarithmic (less is better)"
        )
        bars(DOCS / "benchmarks-handoff.svg", title, rows, logarithmic=True)
    curves = {name: points for name, points in growth.caller_curves(figures).items() if points}
    if curves:
        lines(
            BENCH / "callers.svg",
            "Pairs per second by the number of callers, one node",
            curves,
            "callers",
        )


def percent(value: float | None) -> float | None:
    return None if value is None else value * 100


def milliseconds(value: float | None) -> float | None:
    return None if value is None else value / 1e3


def chart_rows(
    figures: Figures, case: Case, value_of: Callable[[str], float | None], form: str
) -> list[Bar]:
    rows = []
    for name in figures.names(case):
        value = value_of(name)
        program = BY_NAME[name]
        if value:
            kind = "floor" if program.floor else "ours" if program.ours else "peer"
            rows.append(Bar(name, value, form.format(value), kind))
    return rows


def about(figures: Figures) -> str:
    of = figures.results["about"]
    versions = [
        of[name] for name in ("redis", "python", "node", "rust", "go", "java") if of.get(name)
    ]
    load = f"initial load {of['load']:.2f}" if of.get("load") is not None else ""
    apart = f" Measured separately: {', '.join(of['apart'])}." if of.get("apart") else ""
    if of["quick"]:
        apart += " **A quick run on a busy machine. Its values are not meaningful.**"
    return (
        f"Measured {of['date']} at commit {of['commit']}: {of['system']}, {of['cores']} cores, {load}; "
        f"{of['rounds']} rounds of {of['seconds']} s each, {of['minutes']:.0f} minutes in all. "
        f"{'; '.join(versions)}.{apart}"
    )


def pages(figures: Figures) -> dict[Path, str]:
    """Returns the text of each page."""
    all_goals = goals(figures)
    met = sum(goal.is_met is True for goal in all_goals)
    missed = sum(goal.is_met is False for goal in all_goals)
    parts = {
        "about": about(figures),
        "summary": f"{met} of {met + missed} goals are met, {missed} are not.",
        "goals": goal_table(figures),
        "behind": "\n".join(behind(figures)) or "Nowhere in this run.",
        "one": tables.one_caller(figures, 1),
        "three": tables.one_caller(figures, 3),
        "five": tables.one_caller(figures, 5),
        "many": tables.many_callers(figures, 1, 64),
        "many-five": tables.many_callers(figures, 5, 64),
        "thousand": tables.many_callers(figures, 1, 1000),
        "counts": tables.counted(figures),
        "handoffs": tables.handoffs(figures),
        "faults": tables.faults(figures),
        "links": tables.links(figures),
        "leases": tables.leases(figures),
        "fencing": tables.fencing(figures),
        "starts": tables.starts(figures),
        "growth": growth.in_words(figures),
        "growth-leases": growth.leases_table(figures),
    }
    written = {}
    for template, page in PAGES.items():
        text = template.read_text()
        for name, part in parts.items():
            text = text.replace(f"{{{{{name}}}}}", part.rstrip("\n"))
        assert "{{" not in text, "a part of the page is not written"
        written[page] = text
    return written


def main() -> None:
    dry = sys.argv[1:] == ["--dry"]
    figures = Figures(json.loads((QUICK if dry else RESULTS).read_text()))
    if not dry:
        draw(figures)
        for page, text in pages(figures).items():
            page.write_text(text)
    for goal in goals(figures):
        if dry and goal.figure is None:
            continue
        print(" | ".join(goal.row()))


if __name__ == "__main__":
    main()
