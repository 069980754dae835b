"""The goals of the project (issue 14), and whether this run met them."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from cases import LEASES, Case
from figures import Figures, p50, rate

ONE, FIVE = Case("pairs"), Case("pairs", nodes=5)
#: Many callers are measured with one core for all, and with a core each.
PLACEMENTS = {"one": "one core", "two": "a core each"}
HEALTHY = Case("faults", nodes=5)
HANDOFF = Case("handoff", "handoff", processes=2)
HOLD = Case("hold", "hold", callers=10_000)
RUST, SYNC, ASYNCIO, NODE = "redlock, Rust", "redlock, Python", "redlock, asyncio", "redlock, Node"
OURS = (RUST, SYNC, ASYNCIO, NODE)
#: min(1 s, ttl / 5), in µs.
NODE_DEADLINE = 1e6


@dataclass
class Goal:
    """One line: an upper or a lower limit."""

    what: str
    limit: float
    figure: float | None
    is_minimum: bool = False
    unit: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.figure is None:
            return None
        return self.figure >= self.limit if self.is_minimum else self.figure <= self.limit

    def row(self) -> list[str]:
        verdict = {True: "met", False: "**NOT met**", None: "not measured"}[self.is_met]
        sign = "at least" if self.is_minimum else "at most"
        return [
            self.what,
            f"{sign} {number(self.limit)}{self.unit}",
            with_unit(self.figure, self.unit),
            verdict,
        ]


def number(value: float) -> str:
    """Formats with two decimals, or three below one."""
    form = ",.3f" if abs(value) < 1 else ",.2f" if abs(value) < 1000 else ",.0f"
    text = format(value, form)
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_unit(figure: float | None, unit: str) -> str:
    return "-" if figure is None else f"{number(figure)}{unit}"


def percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def one_caller_goals(figures: Figures) -> Iterator[Goal]:
    limits = {RUST: 1.2, "redlock, Rust blocking": 1.2, SYNC: 1.25, ASYNCIO: 1.6, NODE: 1.35}
    for name, limit in limits.items():
        yield Goal(
            f"One caller, one node: {name}, relative to the floor",
            limit,
            figures.ratio(ONE, name, p50),
        )
    for name, limit in {f"{NODE}, new Lock": 1.1, f"{NODE}, using": 1.2}.items():
        ratio = figures.ratio(ONE, name, p50, to=NODE)
        yield Goal(f"One caller, one node: {name}, relative to a reused Lock", limit, ratio)
    tail = figures.median(ONE, NODE, lambda sample: sample["p99"] / sample["p50"])
    yield Goal("One caller, one node: Node's p99 relative to its median", 3, tail)
    for name in ("redlock, Rust blocking", SYNC):
        switches = figures.median(ONE, name, lambda sample: sample["switches"] / sample["pairs"])
        yield Goal(f"Switches of the client's threads per pair: {name}", 2.2, switches)
        calls = figures.count(name, "pair", "system_calls")
        yield Goal(f"System calls of the client per pair: {name}", 7, calls)


def many_callers_goals(figures: Figures) -> Iterator[Goal]:
    yield from shares_goals(figures, 1, {RUST: 75, ASYNCIO: 55, NODE: 55, SYNC: 25})
    for name, limit in {RUST: 1.15, SYNC: 1.3, ASYNCIO: 1.5, NODE: 1.5}.items():
        yield Goal(
            f"One caller, 5 nodes: {name}, relative to the floor",
            limit,
            figures.ratio(FIVE, name, p50),
        )
    yield from shares_goals(figures, 5, {RUST: 65, ASYNCIO: 45, NODE: 45, SYNC: 45})


def shares_goals(figures: Figures, nodes: int, limits: dict[str, float]) -> Iterator[Goal]:
    for placement, words in PLACEMENTS.items():
        case = Case("pairs", nodes=nodes, callers=64, placement=placement)
        for name, limit in limits.items():
            share = percent(figures.ratio(case, name, rate))
            what = f"64 callers, {nodes_of(nodes)}, {words}: {name}, share of the pipelined floor"
            yield Goal(what, limit, share, True, " %")


def nodes_of(count: int) -> str:
    return "one node" if count == 1 else f"{count} nodes"


def handoff_goals(figures: Figures) -> Iterator[Goal]:
    for name in OURS:
        floor = figures.median(HANDOFF, "floor", p50)
        mine = figures.median(HANDOFF, name, lambda sample: sample["between_p50"] or sample["p50"])
        ratio = mine / floor if mine is not None and floor else None
        yield Goal(
            f"Handoff between two processes: {name}, relative to the wake-up floor", 1.5, ratio
        )
        sent = figures.count(name, "handoff", "sent")
        # The run ends in the middle of a hold. Its commands are counted, but the hold is not.
        yield Goal(f"Handoff: commands sent by {name}", 4, None if sent is None else round(sent, 1))


def faults_goals(figures: Figures) -> Iterator[Goal]:
    for count, fault in ((1, "frozen"), (2, "frozen"), (1, "dead"), (2, "dead")):
        case = Case("faults", nodes=5, failing=count, fault=fault)
        if not figures.names(case):
            continue
        for name in OURS:
            ratio = figures.ratio(case, name, p50, to=name, of=HEALTHY)
            yield Goal(
                f"{count} of 5 nodes {fault}: {name}, median relative to healthy nodes", 1.1, ratio
            )
        tails = [figures.median(case, name, lambda sample: sample["p99"] / 1e3) for name in OURS]
        worst = max((tail for tail in tails if tail is not None), default=None)
        text = f"{count} of 5 nodes {fault}: our largest p99, limited by the node's deadline"
        yield Goal(text, NODE_DEADLINE / 1e3, worst, unit=" ms")
        failed = [sample["failed"] for name in OURS for sample in figures.samples(case, name)]
        hung = sum(figures.hung(case, name) for name in OURS)
        yield Goal(f"{count} of 5 nodes {fault}: our failed calls", 0, sum(failed) + hung)


def leases_goals(figures: Figures) -> Iterator[Goal]:
    for name in OURS:
        for text, field, limit, unit in (
            ("CPU time in 15 s", "cpu", 0.15, " s"),
            ("memory per lease", "kb", 0.7, " KB"),
            ("additional threads", "threads", 2, ""),
            ("lost", "lost", 0, ""),
        ):
            figure = figures.median(HOLD, name, itemgetter(field))
            yield Goal(f"10,000 renewed leases: {name}, {text}", limit, figure, unit=unit)
    most = max(LEASES)
    lost = figures.median(Case("leases", "hold", callers=most), RUST, itemgetter("lost"))
    yield Goal(f"{most:,} renewed leases: {RUST}, lost", 0, lost)


def links_goals(figures: Figures) -> Iterator[Goal]:
    for link in (1.0, 20.0):
        for nodes in (1, 5):
            case = Case("links", nodes=nodes, link_ms=link)
            for name in OURS:
                median = figures.median(case, name, p50)
                floor = figures.median(case, "floor", p50)
                # The floor's pair is two round trips plus the link's own overhead.
                trips = 2 * median / floor if median and floor else None
                where = f"{link:g} ms link, {nodes} node{'s' * (nodes > 1)}"
                yield Goal(f"{where}: {name}, round trips per pair", 2.5, trips)


def starts_goals(figures: Figures) -> Iterator[Goal]:
    for name, bare in ((SYNC, "bare Python"), (NODE, "bare Node")):
        with_it, without = figures.started(name, "import"), figures.started(bare, "import")
        over = None if with_it is None or without is None else with_it - without
        yield Goal(f"Import: {name}, over the bare runtime", 10, over, unit=" ms")


def goals(figures: Figures) -> list[Goal]:
    parts = (
        one_caller_goals,
        many_callers_goals,
        handoff_goals,
        faults_goals,
        leases_goals,
        links_goals,
        starts_goals,
    )
    return [goal for part in parts for goal in part(figures)]
