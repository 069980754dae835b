"""Measures the cost of finding a node's server by Sentinel or in a Cluster: pairs over each, beside a fixed server.

routes.py [ROUNDS [SECONDS]]: runs the three in turn, with client and server on one core, and computes the ratio within
each round.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time

from servers import Server
from waits import tool


class Member(Server):
    """A whole Redis Cluster in one server."""

    options = ("--cluster-enabled", "yes")

    def __init__(self) -> None:
        super().__init__()
        self.url = f"redis+cluster://127.0.0.1:{self.port}"
        self.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        while "cluster_state:ok" not in self.cli("CLUSTER", "INFO"):
            time.sleep(0.05)

    def cli(self, *words: str) -> str:
        command = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Sentinel(Server):
    """A sentinel that monitors a server."""

    def __init__(self, primary: Server) -> None:
        self.primary = primary
        super().__init__()
        self.url = f"redis+sentinel://127.0.0.1:{self.port}/service"

    def arguments(self) -> list[str]:
        file = os.path.join(self.folder, "sentinel.conf")
        with open(file, "w", encoding="utf-8") as out:
            out.write(f"port {self.port}\nsentinel monitor service 127.0.0.1 {self.primary.port} 1")
        return [file, "--sentinel"]


def median(url: str, seconds: str) -> float:
    """Returns the median duration of a pair over this node, in µs."""
    lines = tool("pairs", url, seconds).communicate()[0].splitlines()
    return statistics.median(int(line.split()[1]) / 1e3 for line in lines[20:])


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    seconds = sys.argv[2] if len(sys.argv) > 2 else "2"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with contextlib.ExitStack() as ending:
        servers: list[Server] = []
        for make in (Server, lambda: Sentinel(servers[0]), Member):
            servers.append(make())
            ending.callback(servers[-1].stop)
        fixed, *others = [server.url for server in servers]
        medians: dict[str, list[float]] = {url: [] for url in (fixed, *others)}
        for number in range(rounds):
            urls = [fixed, *others]
            for url in urls if number % 2 else reversed(urls):
                medians[url].append(median(url, seconds))
        print(f"fixed server: {statistics.median(medians[fixed]):.1f} us a pair")
        for url in others:
            pairs = zip(medians[url], medians[fixed], strict=True)
            ratios = sorted(ours / theirs for ours, theirs in pairs)
            low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            print(
                f"{url.split('://')[0]}: {statistics.median(medians[url]):.1f} us = "
                f"{statistics.median(ratios):.2f} x, quartiles {low:.2f} to {high:.2f} (goal 1.05)"
            )


if __name__ == "__main__":
    main()
