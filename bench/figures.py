"""Computes medians over the rounds, and ratios within a round."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cases import Case
from programs import PROGRAMS, Program
from session import Sample

BY_NAME = {program.name: program for program in PROGRAMS}
Metric = Callable[[Sample], float]


def p50(sample: Sample) -> float:
    return float(sample["p50"])


def rate(sample: Sample) -> float:
    return float(sample["pairs"] / sample["seconds"])


@dataclass
class Figures:
    """The results of a run."""

    results: dict[str, Any]

    def samples(self, case: Case, name: str) -> list[Sample]:
        """Returns the samples in which every call returned."""
        entry = self.results["cases"].get(case.key, {"samples": {}})
        return [each for each in entry["samples"].get(name, []) if "hung" not in each]

    def hung(self, case: Case, name: str) -> bool:
        entry = self.results["cases"].get(case.key, {"samples": {}})
        return any("hung" in each for each in entry["samples"].get(name, []))

    def names(self, case: Case) -> list[str]:
        entry = self.results["cases"].get(case.key, {"samples": {}})
        return [program.name for program in PROGRAMS if program.name in entry["samples"]]

    def median(self, case: Case, name: str, metric: Metric) -> float | None:
        taken = [metric(each) for each in self.samples(case, name)]
        return statistics.median(taken) if taken else None

    def ratio(
        self, case: Case, name: str, metric: Metric, to: str = "floor", of: Case | None = None
    ) -> float | None:
        """Returns the median over the rounds of the ratio of two programs' figures in the same round."""
        others = {each["round"]: metric(each) for each in self.samples(of or case, to)}
        mine = self.samples(case, name)
        ratios = [metric(each) / others[each["round"]] for each in mine if each["round"] in others]
        return statistics.median(ratios) if ratios else None

    def spread(self, case: Case, name: str, metric: Metric) -> str:
        """Returns the smallest and largest ratio to the floor over the rounds."""
        floor = {each["round"]: metric(each) for each in self.samples(case, "floor")}
        ratios = [
            metric(each) / floor[each["round"]]
            for each in self.samples(case, name)
            if each["round"] in floor
        ]
        return f"{min(ratios):.2f}-{max(ratios):.2f}" if len(ratios) > 1 else ""

    def best_peer(
        self, case: Case, metric: Metric, language: str = "", least: bool = True
    ) -> str | None:
        """For a language, or for all."""
        found = {
            name: value
            for name in self.names(case)
            if is_peer(BY_NAME[name])
            and (not language or BY_NAME[name].language == language)
            and (value := self.median(case, name, metric)) is not None
        }
        if not found:
            return None
        return (min if least else max)(found, key=lambda name: found[name])

    def count(self, name: str, what: str, field: str) -> float | None:
        value = self.results["counts"].get(name, {}).get(what, {}).get(field)
        return None if value is None else float(value)

    def started(self, name: str, what: str) -> float | None:
        value = self.results["starts"].get(name, {}).get(what)
        return None if value is None else float(value)


def is_peer(program: Program) -> bool:
    return not program.ours and not program.floor
