"""Waiting, failing nodes and held leases: the figures of bench/measurements.md.

waits.py [handoff|contend|hold|frozen|spread]...
"""

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from servers import Server

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "target" / "release" / "waits"


def tool(*arguments: str | int) -> subprocess.Popen[str]:
    command = [str(TOOL), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def together(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """Starts all processes at once when each is ready. Returns the lines that each prints afterwards."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate()[0].splitlines() for process in processes]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def handoff(servers: list[Server]) -> None:
    one = servers[0]
    before = one.requests()
    lines = together([tool("take", one.url, 16, 12), tool("take", one.url, 1, 192)])
    sent = one.requests() - before
    floor = float(tool("floor", one.url, 300).communicate()[0]) / 1e3
    stamps = sorted((int(line.split()[1]), line[0]) for each in lines for line in each)
    # A process that remains alone has no handoffs.
    both = min(max(int(line.split()[1]) for line in each) for each in lines)
    gaps = [
        (b[0] - a[0]) / 1e3
        for a, b in itertools.pairwise(stamps)
        if (a[1], b[1]) == ("R", "A") and b[0] <= both
    ]
    overlaps = sum(1 for a, b in itertools.pairwise(stamps) if (a[1], b[1]) == ("A", "A"))
    holds = sum(kind == "A" for _, kind in stamps)
    p50, p99 = statistics.median(gaps), percentile(gaps, 0.99)
    print(
        f"2 processes, 16 waiters in one: {len(gaps)} handoffs, median {p50:.0f} us = "
        f"{p50 / floor:.2f} x the wake-up floor of {floor:.0f} us (goal 2), p99 {p99:.0f} us = "
        f"{p99 / p50:.1f} x the median (goal 10), {sent / holds:.1f} requests a hold (goal 5), "
        f"{overlaps} overlaps"
    )


def contend(servers: list[Server]) -> None:
    urls = ",".join(server.url for server in servers)
    seconds = 20
    lines = together([tool("contend", urls, seconds) for _ in range(8)])
    waits = [int(line.split()[1]) / 1e6 for each in lines for line in each]
    rate = len(waits) / seconds
    fair = 8 / rate * 1e3
    p99 = percentile(waits, 0.99)
    print(
        f"8 processes, one name, 5 nodes, {seconds} s: {rate:.0f} handoffs/s, "
        f"wait p50 {statistics.median(waits):.1f} ms, "
        f"p99 {p99:.1f} ms = {p99 / fair:.1f} x the fair share of {fair:.1f} ms (goal 4), worst {max(waits):.0f} ms"
    )


def frozen(servers: list[Server]) -> None:
    urls = ",".join(server.url for server in servers)

    def median(seconds: int) -> tuple[float, float]:
        lines = tool("pairs", urls, seconds).communicate()[0].splitlines()
        waits = [int(line.split()[1]) / 1e6 for line in lines][20:]
        return statistics.median(waits), percentile(waits, 0.99)

    healthy, healthy99 = median(4)
    print(f"pair over 5 healthy nodes: p50 {healthy:.3f} ms, p99 {healthy99:.2f} ms")
    failures = (
        ("frozen", signal.SIGSTOP, 1),
        ("frozen", signal.SIGSTOP, 2),
        ("killed", signal.SIGKILL, 2),
    )
    for how, stop, count in failures:
        process = tool("pairs", urls, 4)
        time.sleep(0.3)
        for server in servers[:count]:
            server.process.send_signal(stop)
        lines = process.communicate()[0].splitlines()
        waits = [int(line.split()[1]) / 1e6 for line in lines]
        after = waits[len(waits) // 4 :]
        p50, p99 = statistics.median(after), percentile(after, 0.99)
        ratio = p50 / healthy
        print(
            f"  {count} of 5 {how}: p50 {p50:.3f} ms = {ratio:.2f} x healthy (goal 1.2), p99 {p99:.2f} ms"
        )
        assert process.returncode == 0, "a call failed"
        for server in servers[:count]:
            server.process.send_signal(signal.SIGCONT)
        time.sleep(1)


def spread(servers: list[Server]) -> None:
    """As `frozen`, but over all cores. With fewer busy servers, cores go idle, and waking one takes time."""
    frozen(servers)


def hold(servers: list[Server]) -> None:
    one = servers[0]
    process = tool("hold", one.url, 10_000, 15)
    text = process.communicate()[0]
    goals, scripts = "(goals 0.3 s, 3 KB, 0 lost)", one.calls("evalsha")
    print(f"10,000 leases, ttl 10 s, 15 s: {json.loads(text)} {goals}, {scripts} scripts in all")


def main() -> None:
    parts = {
        "handoff": handoff,
        "contend": contend,
        "hold": hold,
        "spread": spread,
        "frozen": frozen,
    }
    cores = os.sched_getaffinity(0)
    for name in sys.argv[1:] or parts:
        # Client and servers share one core, so that the total of all work and waiting is compared.
        os.sched_setaffinity(0, {max(cores)} if name == "frozen" else cores)
        servers = [Server() for _ in range(5)]
        try:
            print(f"{name}: ", end="", flush=True)
            parts[name](servers)
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
