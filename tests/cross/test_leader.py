"""Candidates in three languages, of which the leader is killed and frozen again and again.

Another one takes over within the TTL and a margin, and no two terms overlap. A term lasts from its first line to the
last time at which `held` was still true, on CLOCK_BOOTTIME. The body of a frozen leader ends when its process runs
again, which is the documented window of two bodies.
"""

import random
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import CANDIDATES, HoldPeriod, Program, assert_no_overlap, candidate, now

TTL_MS = 1000
#: For the round of the next leader and for a busy machine, in seconds. The median must be far below it.
MARGIN = 1.0
TURNS = 8


@dataclass
class Candidate:
    """A process, and what its lines said."""

    form: str
    program: Program
    begin: int | None = None
    fence: int = 0
    #: Each term, from its begin to the last time at which its lease was held.
    terms: list[HoldPeriod] = field(default_factory=list)
    #: When the body of each term ended.
    ends: list[int] = field(default_factory=list)

    def read(self) -> "Candidate":
        for line in self.program.received():
            if line["sign"] == "leads":
                self.begin, self.fence = line["at"], line["fence"]
            else:
                assert self.begin is not None, line
                self.end(line["last"], line["at"])
        return self

    def end(self, last: int, at: int) -> None:
        assert self.begin is not None
        self.terms.append((self.begin, max(last, self.begin), f"{self.form} {self.fence}"))
        self.ends.append(at)
        self.begin = None


def leader_after(candidates: list[Candidate], fence: int) -> Candidate:
    """Waits for the begin of the next term and returns its candidate."""
    found: list[Candidate] = []

    def leads() -> bool:
        found[:] = [each for each in candidates if each.read().begin and each.fence > fence]
        return bool(found)

    eventually(leads, "no candidate takes over")
    assert len(found) == 1, f"two holders: {found}"
    return found[0]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.slow("leaders are killed and frozen beyond their ttl")
def test_another_candidate_takes_over(count: int, five: list[Server], name: str) -> None:
    nodes, choose = [server.url for server in five[:count]], random.Random(count)
    delays: dict[str, list[float]] = {"killed": [], "frozen": []}
    terms: list[HoldPeriod] = []
    with ExitStack() as stack:

        def start(form: str) -> Candidate:
            return Candidate(form, stack.enter_context(candidate(form, nodes, name, TTL_MS)))

        candidates = [start(form) for form in CANDIDATES]
        leader = leader_after(candidates, 0)
        for turn in range(TURNS):
            time.sleep(choose.uniform(0, TTL_MS / 1000))
            others = [each for each in candidates if each is not leader]
            if turn % 2:
                leader.program.pause()
                stopped = now()
                successor = leader_after(others, leader.fence)
                time.sleep(choose.uniform(0, 0.5))
                resumed = now()
                leader.program.resume()
                # The window of two bodies ends soon after the process runs again.
                assert end_of_body(leader) - resumed < MARGIN * 1e9
                delays["frozen"].append(took(successor, stopped))
            else:
                stopped = leader.program.kill()
                leader.end(stopped, stopped)
                terms += leader.terms
                candidates[candidates.index(leader)] = start(leader.form)
                successor = leader_after(candidates, leader.fence)
                delays["killed"].append(took(successor, stopped))
            leader = successor
        leader.end(now(), now())
        terms += [term for each in candidates for term in each.terms]
    assert_no_overlap(terms)
    fences = [int(who.split()[1]) for _, _, who in sorted(terms)]
    assert fences == sorted(set(fences))
    for how, found in delays.items():
        assert statistics.median(found) < (TTL_MS / 1000) + MARGIN / 4, (how, found)
        print(f"{count} nodes, {how}: {sorted(round(delay, 3) for delay in found)} s")


def end_of_body(former: Candidate) -> int:
    """Waits until the body of a former leader has ended, and returns the time of that."""
    eventually(lambda: former.read().begin is None, "the body of a former leader runs")
    return former.ends[-1]


def took(successor: Candidate, since: int) -> float:
    """Returns how long a take-over took in seconds, which must be at most the TTL and the margin."""
    assert successor.begin is not None
    delay = (successor.begin - since) / 1e9
    assert delay < TTL_MS / 1000 + MARGIN, f"{successor.form} took over after {delay:.3f} s"
    return delay
