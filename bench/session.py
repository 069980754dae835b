"""One run of one program in one case: servers, links, clients on their cores, and the result."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cases import Case
from programs import CLIENTS, HERE, Program
from servers import Monitor, Server, links, pinned, servers

Sample = dict[str, Any]
#: Seconds after the end of its time until a hanging client is killed. Some other libraries hang when a node fails.
HANG_LIMIT = 4.0
WARM_UP_LIMIT = 90.0


def cores(placement: str) -> tuple[set[int], set[int]]:
    """Returns the cores of the servers and those of the clients."""
    there = sorted(os.sched_getaffinity(0))
    return {there[-1]}, {there[0] if placement == "two" else there[-1]}


@dataclass
class Client:
    """A running program."""

    process: "subprocess.Popen[str]"

    @classmethod
    def start(cls, program: Program, case: Case, ports: list[int], seconds: float) -> "Client":
        numbers = [",".join(map(str, ports)), str(case.callers), str(seconds)]
        command = [*program.command, program.library, case.mode, *numbers, *program.words]
        environment = program.environment()
        return cls(
            subprocess.Popen(
                command,
                cwd=CLIENTS,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("BENCH_SHOW_ERRORS") else subprocess.DEVNULL,
                text=True,
            )
        )

    def line(self, limit: float) -> str:
        """Returns its next line, or an empty string after the time limit."""
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        try:
            assert self.process.stdout is not None
            return self.process.stdout.readline().strip()
        finally:
            timer.cancel()

    def warm(self) -> bool:
        return self.line(WARM_UP_LIMIT) == "ready"

    def go(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()

    def result(self, limit: float) -> Sample:
        text = self.line(limit)
        return json.loads(text) if text else {"hung": True}

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def fail(case: Case, nodes: list[Server]) -> None:
    """Fails the first nodes, so that a program that prefers the first nodes has no advantage."""
    for node in nodes[: case.failing]:
        node.process.send_signal(signal.SIGSTOP if case.fault == "frozen" else signal.SIGKILL)


def sample(case: Case, program: Program, seconds: float, counted: bool = False) -> Sample:
    """Runs one sample with new servers and clients. With `counted`, measures commands and system calls but no times."""
    for_servers, for_clients = cores(case.placement)
    with contextlib.ExitStack() as ending:
        with pinned(for_servers):
            nodes = ending.enter_context(servers(case.nodes))
            ports = ending.enter_context(links([node.port for node in nodes], case.link_ms))
        clients = []
        with pinned(for_clients):
            for _ in range(1 if program.floor else case.processes):
                clients.append(Client.start(program, case, ports, seconds))
                ending.callback(clients[-1].stop)
        if not all(client.warm() for client in clients):
            return {"hung": True, "when": "warming up"}
        if counted:
            return count(nodes[0], clients, seconds)
        before = sum(node.cpu() for node in nodes)
        fail(case, nodes)
        for client in clients:
            client.go()
        results = [
            client.result(seconds + HANG_LIMIT + 20 * (case.mode == "hold")) for client in clients
        ]
        if case.failing:
            return results[0]
        server_cpu = sum(node.cpu() for node in nodes) - before
        if case.mode == "handoff" and not program.floor:
            return {**handed_over(results), "server_cpu": server_cpu}
        return {**results[0], "server_cpu": server_cpu}


def handed_over(results: list[Sample]) -> Sample:
    """Computes, from the times of each hold, how long the lock stayed free and whether two holders overlapped."""
    if any("hung" in result for result in results):
        return {"hung": True}
    # Acquired, released, requested, by which process.
    holds = sorted(
        (each[1], each[2], each[0], which)
        for which, one in enumerate(results)
        for each in one["stamps"]
    )
    # A caller that requested the lock after its release did not wait for it.
    waited = [(b[0] - a[1], a[3] != b[3]) for a, b in pairwise(holds) if b[2] < a[1]]
    gaps = sorted(gap / 1e3 for gap, _ in waited)
    between = sorted(gap / 1e3 for gap, other in waited if other)
    if not gaps:
        # Only the releasing caller acquired it again, or none did.
        return {"hung": True, "holds": len(holds)}
    return {
        "handoffs": len(gaps),
        "holds": len(holds),
        "p50": gaps[len(gaps) // 2],
        "p99": gaps[len(gaps) * 99 // 100],
        "between": len(between),
        "between_p50": between[len(between) // 2] if between else None,
        "overlaps": sum(b[0] < a[1] for a, b in pairwise(holds)),
    }


def count(server: Server, clients: list[Client], seconds: float) -> Sample:
    """Counts commands by MONITOR, and system calls by strace if it is installed."""
    out = HERE / "out" / "strace"
    out.unlink(missing_ok=True)
    tracer = None
    with contextlib.suppress(FileNotFoundError):
        command = ["strace", "-c", "-f", "-o", str(out), "-p", str(clients[0].process.pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        tracer.stderr.readline()  # "attached"
    monitor = Monitor(server)
    for client in clients:
        client.go()
    results = [client.result(seconds + 20) for client in clients]
    monitor.stop(server)
    if tracer is not None:
        tracer.communicate()
    if any("hung" in result for result in results):
        return {"hung": True}
    done = sum(
        result.get("pairs") or result.get("handoffs") or len(result["stamps"]) for result in results
    )
    calls = system_calls(out.read_text()) if out.exists() else None
    return {
        "sent": monitor.sent / done,
        "executed": monitor.executed / done,
        "system_calls": calls and calls / done,
        "done": done,
    }


def system_calls(table: str) -> int | None:
    """Returns the total in the last line of strace -c."""
    for line in table.splitlines():
        words = line.split()
        if words[-1:] == ["total"]:
            return int(words[3])
    return None
