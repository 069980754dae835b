"""The tables of the page: one function each, from the figures to Markdown."""

from collections.abc import Iterable
from operator import itemgetter

from cases import Case
from figures import BY_NAME, Figures, p50, rate
from goals import number
from session import Sample


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    body = [f"| {' | '.join(row)} |" for row in rows]
    if not body:
        return "Not measured in this run.\n"
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *body]) + "\n"


def shown(value: float | None, form: str = "{:,.1f}", scale: float = 1) -> str:
    return "-" if value is None else form.format(value * scale)


def called(name: str) -> str:
    return f"**{name}**" if BY_NAME[name].ours else name


def tail(sample: Sample) -> float:
    return float(sample["p99"])


def client_cpu(sample: Sample) -> float:
    return float(sample["cpu"] / sample["pairs"] * 1e6)


def server_cpu(sample: Sample) -> float:
    return float(sample["server_cpu"] / sample["pairs"] * 1e6)


def switches(sample: Sample) -> float:
    return float(sample["switches"] / sample["pairs"])


def one_caller(figures: Figures, nodes: int) -> str:
    one, two = (Case("pairs", nodes=nodes, placement=place) for place in ("one", "two"))
    best = figures.best_peer(one, p50)
    rows = []
    for name in figures.names(one):
        ratio = figures.ratio(one, name, p50, to=best) if best else None
        spread = figures.spread(one, name, p50)
        floor = shown(figures.ratio(one, name, p50), "{:.2f}") + (f" ({spread})" if spread else "")
        cells = [shown(figures.median(one, name, metric)) for metric in (p50, tail)] + [
            floor,
            shown(ratio, "{:.2f}"),
        ]
        cells += [
            shown(figures.median(one, name, metric))
            for metric in (client_cpu, server_cpu, switches)
        ]
        cells += [shown(figures.median(two, name, metric)) for metric in (p50, tail)]
        rows.append([called(name), *cells, shown(figures.ratio(two, name, p50), "{:.2f}")])
    head = [
        "",
        "µs",
        "p99",
        "x floor (rounds)",
        f"x {best}",
        "CPU µs, client",
        "servers",
        "switches",
    ]
    return table([*head, "two cores: µs", "p99", "x floor"], rows)


def many_callers(figures: Figures, nodes: int, callers: int) -> str:
    one, two = (
        Case("pairs", nodes=nodes, callers=callers, placement=place) for place in ("one", "two")
    )
    best = figures.best_peer(one, rate, least=False)
    rows = []
    for name in figures.names(one):
        ratio = figures.ratio(one, name, rate, to=best) if best else None
        share = figures.ratio(one, name, rate)
        cells = [
            shown(figures.median(one, name, rate), "{:,.0f}"),
            shown(share, "{:.0f} %", 100),
            shown(ratio, "{:.2f}"),
        ]
        cells += [shown(figures.median(one, name, metric), "{:,.0f}") for metric in (p50, tail)]
        cells += [shown(figures.median(one, name, metric)) for metric in (client_cpu, server_cpu)]
        cells += [
            shown(figures.median(two, name, rate), "{:,.0f}"),
            shown(figures.ratio(two, name, rate), "{:.0f} %", 100),
        ]
        rows.append([called(name), *cells])
    head = [
        "",
        "pairs/s",
        "of the floor",
        f"x {best}",
        "µs",
        "p99",
        "CPU µs per pair, client",
        "servers",
    ]
    return table([*head, "two cores: pairs/s", "of the floor"], rows)


def counted(figures: Figures) -> str:
    rows = []
    for name in [each for each in BY_NAME if each in figures.results["counts"]]:
        pair = [
            figures.count(name, "pair", field) for field in ("sent", "executed", "system_calls")
        ]
        handoff = [figures.count(name, "handoff", field) for field in ("sent", "executed")]
        rows.append([called(name), *(shown(value) for value in [*pair, *handoff])])
    head = ["", "pair: sent", "with those in scripts", "system calls of the client"]
    return table([*head, "handoff: sent", "with those in scripts"], rows)


def handoffs(figures: Figures) -> str:
    shapes = [
        (2, 1, "one"),
        (2, 8, "one"),
        (2, 8, "two"),
        (2, 100, "one"),
        (8, 2, "one"),
        (8, 25, "one"),
    ]
    cases = [
        Case("handoff", "handoff", callers=c, processes=p, placement=place)
        for p, c, place in shapes
    ]
    rows = []
    for name in figures.names(cases[1]):
        cells = []
        for case in cases:
            middle = figures.median(case, name, p50)
            ratio = figures.ratio(case, name, p50)
            high = shown(figures.median(case, name, tail), "{:.1f}", 1e-3)
            text = f"{shown(middle, '{:.2f}', 1e-3)} / {high} ({shown(ratio)} x)"
            there = name in figures.names(case)
            cells.append(text if middle is not None else "no waiting caller" if there else "-")
        doubled = sum(
            each.get("overlaps", 0) for case in cases for each in figures.samples(case, name)
        )
        rows.append([called(name), *cells, f"{doubled}"])
    head = [f"{p} x {c}{', two cores' * (place == 'two')}" for p, c, place in shapes]
    return table(["processes x waiting callers in each", *head, "two holders at once"], rows)


def faults(figures: Figures) -> str:
    kinds = [(0, ""), (1, "frozen"), (2, "frozen"), (1, "dead"), (2, "dead")]
    cases = [Case("faults", nodes=5, failing=count, fault=fault) for count, fault in kinds]
    rows = []
    for name in figures.names(cases[0]):
        cells = [fault_cell(figures, case, name) for case in cases]
        rows.append([called(name), *cells])
    return table(["", "healthy", *(f"{count} {fault}" for count, fault in kinds[1:])], rows)


def fault_cell(figures: Figures, case: Case, name: str) -> str:
    if figures.hung(case, name):
        return "no call returned"
    middle, high = figures.median(case, name, p50), figures.median(case, name, tail)
    failed = sum(sample["failed"] for sample in figures.samples(case, name))
    pairs = sum(sample["pairs"] for sample in figures.samples(case, name))
    if middle is None:
        return "-"
    text = f"{middle / 1e3:,.2f} / {shown(high, '{:,.1f}', 1e-3)}"
    return text + (f", {failed} of {pairs} failed" if failed else "")


def links(figures: Figures) -> str:
    setups = [(1.0, 1), (20.0, 1), (1.0, 5), (20.0, 5)]
    cases = [Case("links", nodes=nodes, link_ms=link) for link, nodes in setups]
    rows = [
        [called(name), *(shown(figures.median(case, name, p50), "{:.2f}", 1e-3) for case in cases)]
        for name in figures.names(cases[0])
    ]
    return table(
        ["", *(f"{link:g} ms, {nodes} node{'s' * (nodes > 1)}" for link, nodes in setups)], rows
    )


def leases(figures: Figures) -> str:
    case = Case("hold", "hold", callers=10_000)
    fields = ("cpu", "kb", "first_mb", "threads", "lost", "taken_s", "server_cpu")
    rows = []
    for name in figures.names(case):
        values = [figures.median(case, name, itemgetter(field)) for field in fields]
        rows.append([called(name), *("-" if value is None else number(value) for value in values)])
    return table(
        [
            "",
            "CPU s",
            "KB per lease",
            "MB, the first 1,000",
            "additional threads",
            "lost",
            "s to acquire all",
            "CPU s of the server",
        ],
        rows,
    )


def fencing(figures: Figures) -> str:
    setups = [(1, 1), (5, 1), (1, 64)]
    rows = []
    for name in figures.names(Case("fencing", "fenced")):
        cells = []
        for nodes, callers in setups:
            fenced = Case("fencing", "fenced", nodes=nodes, callers=callers)
            plain = Case("pairs", nodes=nodes, callers=callers)
            ratio = figures.ratio(fenced, name, p50, to=name, of=plain)
            cells.append(f"{shown(figures.median(fenced, name, p50))} ({shown(ratio, '{:.2f}')} x)")
        rows.append([called(name), *cells])
    return table(["", "one caller, one node", "one caller, 5 nodes", "64 callers, one node"], rows)


def starts(figures: Figures) -> str:
    rows = []
    for name in figures.results["starts"]:
        bare = (
            "bare Python" if name in BY_NAME and BY_NAME[name].language == "Python" else "bare Node"
        )
        load, first = figures.started(name, "import"), figures.started(name, "first lock")
        floor = figures.started(bare, "import")
        over = None if load is None or floor is None or name.startswith("bare") else load - floor
        rows.append(
            [called(name) if name in BY_NAME else name, shown(load), shown(over), shown(first)]
        )
    return table(["", "import, ms", "over the bare runtime", "to the end of the first pair"], rows)
