"""Runs the programs beside this file in turn, round after round, and prints medians and ratios.

Client and server share one core: what is compared is the sum of all work, which repeats within a
few per cent. The ratio of each round is taken in that round; the table shows their median.

compare.py [ROUNDS [WORD]]: with a word, only what has it in its name, e.g. Node.
"""

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = sys.executable
PAIRS = "4000"
SECONDS = "2"

PROGRAMS = {
    "floor: C, raw socket": ["out/floor", "PORT", PAIRS],
    "redlock, Rust": ["../target/release/examples/pair", "PORT", PAIRS],
    "redlock, Python": [PYTHON, "pair.py", "PORT", PAIRS, "redlock"],
    "redis-py Lock, hiredis": [PYTHON, "pair.py", "PORT", PAIRS, "redis-py"],
    "redlock, 64 asyncio tasks": [PYTHON, "tasks.py", "PORT", SECONDS, "redlock"],
    "redis-py, 64 asyncio tasks": [PYTHON, "tasks.py", "PORT", SECONDS, "redis-py"],
    "redlock, 64 Node callers": ["node", "tasks.mjs", "PORT", SECONDS, "redlock"],
    "node-redlock 5, 64 Node callers": ["node", "tasks.mjs", "PORT", SECONDS, "node-redlock"],
}


@dataclass
class Goal:
    """What is measured against what, and how it should come out."""

    ours: str
    theirs: str
    unit: str
    limit: float

    def met(self, ratio: float) -> bool:
        return ratio <= self.limit if self.unit == "us" else ratio >= self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.unit == 'us' else '>='} {self.limit}"


GOALS = [
    Goal("redlock, Rust", "floor: C, raw socket", "us", 2.4),
    Goal("redlock, Python", "redis-py Lock, hiredis", "us", 0.75),
    Goal("redlock, 64 asyncio tasks", "redis-py, 64 asyncio tasks", "pairs/s", 6),
    Goal("redlock, 64 Node callers", "node-redlock 5, 64 Node callers", "pairs/s", 1.5),
]


def start_server() -> "tuple[subprocess.Popen[bytes], str]":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port))):
            break
        time.sleep(0.05)
    return server, port


def run(program: list[str], port: str) -> float:
    command = [port if word == "PORT" else word for word in program]
    done = subprocess.run(
        command, cwd=HERE, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def print_table(goals: list[Goal], results: dict[str, list[float]]) -> None:
    print(f"{'':<26} {'p50 or rate':>14}   {'against':<32} {'p50 or rate':>14}  ratio   goal")
    for goal in goals:
        ours, theirs = results[goal.ours], results[goal.theirs]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        mine = f"{statistics.median(ours):,.0f} {goal.unit}"
        other = f"{statistics.median(theirs):,.0f} {goal.unit}"
        print(
            f"{goal.ours:<26} {mine:>14}   {goal.theirs:<32} {other:>14}"
            f"  {ratio:5.2f}  {goal} {'met' if goal.met(ratio) else 'NOT MET'}"
        )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    goals = [goal for goal in GOALS if sys.argv[2:] == [] or sys.argv[2] in goal.ours]
    names = [name for goal in goals for name in (goal.theirs, goal.ours)]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # inherited by all that follows
    else:
        print("this system cannot pin processes to a core: read the ratios with care")
    server, port = start_server()
    results: dict[str, list[float]] = {name: [] for name in names}
    try:
        for number in range(rounds):
            print(f"\rround {number + 1} of {rounds}", end="", flush=True, file=sys.stderr)
            for name in names:
                results[name].append(run(PROGRAMS[name], port))
    finally:
        server.kill()
        server.wait()
    print(file=sys.stderr)
    print_table(goals, results)


main()
