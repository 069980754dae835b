"""The measured cases. Each case is one set-up that every suitable program runs in turn."""

from dataclasses import asdict, dataclass
from functools import partial

from programs import PROGRAMS, Program

#: Curves are drawn for one program per language and the floor.
CALLERS = (1, 8, 64, 512, 4096)
NODES = (1, 3, 5, 7, 9)
LEASES = (1_000, 10_000, 100_000)
CURVES = ("floor", "redlock, Rust", "redlock, asyncio", "redlock, Node")


@dataclass(frozen=True)
class Case:
    """One set-up."""

    part: str
    mode: str = "pairs"
    nodes: int = 1
    callers: int = 1
    #: `one` core for client and servers, or a core for each: `two`.
    placement: str = "one"
    processes: int = 1
    #: How many nodes fail after the clients are warm, and how: frozen, dead.
    failing: int = 0
    fault: str = ""
    link_ms: float = 0
    #: Replaces the duration of the run.
    seconds: float = 0
    rounds: int = 99
    #: Only these programs. Empty for all suitable ones.
    only: tuple[str, ...] = ()
    quick: bool = False

    @property
    def key(self) -> str:
        words = [
            f"{name}={value}"
            for name, value in asdict(self).items()
            if name in SHOWN_FIELDS and value
        ]
        return " ".join([self.part, *words])

    def runs(self, program: Program) -> bool:
        if self.only and program.name not in self.only:
            return False
        mode = self.mode in program.modes or (self.mode == "handoff" and program.floor)
        many = program.quorum or self.nodes == 1
        # They differ from their plain variants only if several callers can share a batch.
        alone = self.callers == 1 and program.library.endswith("-autopipe")
        return (
            program.there and mode and many and not alone and not (self.failing and program.floor)
        )


SHOWN_FIELDS = ("mode", "nodes", "callers", "placement", "processes", "failing", "fault", "link_ms")
OURS = tuple(program.name for program in PROGRAMS if program.ours)


def pairs() -> list[Case]:
    found = []
    for placement in ("one", "two"):
        for nodes, callers in ((1, 1), (3, 1), (5, 1), (1, 64), (5, 64), (1, 1000)):
            quick = nodes != 3 and callers < 1000 and placement == "one"
            few = 1 if nodes == 3 or callers == 1000 else 3 if callers == 64 else 2
            rounds = 99 if placement == "one" else few
            found.append(
                Case(
                    "pairs",
                    nodes=nodes,
                    callers=callers,
                    placement=placement,
                    rounds=rounds,
                    quick=quick,
                )
            )
    return found


def handoffs() -> list[Case]:
    """Yields the handoff cases: from one process to another, and 16 or 200 waiters in 2 or 8 processes."""
    found = []
    for processes, each in ((2, 1), (2, 8), (8, 25), (2, 100), (8, 2)):
        # The other cases show the same about other libraries as the last two.
        only = () if each in (1, 8, 25) else ("floor", *OURS)
        case = partial(
            Case,
            "handoff",
            "handoff",
            callers=each,
            processes=processes,
            only=only,
            seconds=1.5,
            rounds=1,
        )
        found.append(case(quick=processes == 2 and each < 10))
        if each == 8:
            found.append(case(placement="two"))
    return found


def faults() -> list[Case]:
    found = [Case("faults", nodes=5, rounds=2, quick=True)]
    for count, fault in ((1, "frozen"), (2, "frozen"), (1, "dead"), (2, "dead")):
        only = () if (count, fault) in ((1, "frozen"), (2, "dead")) else OURS
        quick = (count, fault) == (2, "frozen")
        found.append(
            Case("faults", nodes=5, failing=count, fault=fault, rounds=2, only=only, quick=quick)
        )
    return found


def others() -> list[Case]:
    found = [Case("links", link_ms=ms, seconds=0.6, rounds=1, quick=ms == 20) for ms in (1.0, 20.0)]
    some = ("floor", *OURS)
    found += [
        Case("links", link_ms=ms, nodes=5, seconds=0.6, rounds=1, only=some) for ms in (1.0, 20.0)
    ]
    found += [Case("hold", "hold", callers=10_000, seconds=15, rounds=1, quick=True)]
    for nodes, callers in ((1, 1), (5, 1), (1, 64)):
        quick = nodes == callers == 1
        found.append(Case("fencing", "fenced", nodes=nodes, callers=callers, rounds=2, quick=quick))
    return found


def growth() -> list[Case]:
    found = [Case("callers", callers=count, rounds=3, only=CURVES) for count in CALLERS]
    found += [Case("nodes", nodes=count, rounds=3, only=CURVES) for count in NODES]
    held = partial(Case, "leases", "hold", seconds=12, rounds=1, only=("redlock, Rust",))
    # The sizes in between are measured for all programs.
    return [*found, *(held(callers=count) for count in LEASES if count != 10_000)]


CASES = [*pairs(), *handoffs(), *faults(), *others(), *growth()]
PARTS = [*dict.fromkeys(case.part for case in CASES)]
