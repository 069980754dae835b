"""Starts a program of tests/agents in any of the three languages and communicates with it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "agents"
LANGUAGES = ("rust", "python", "node")
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
REPLY_TIMEOUT = 60.0

Reply = dict[str, Any]


def now() -> int:
    """Returns the time on the agents' clock in nanoseconds."""
    return time.clock_gettime_ns(CLOCK)


#: Builds the Rust programs that tests start. `--workspace` selects the features of `cargo test`, so that cargo compiles
#: no dependency again.
BUILD = ["cargo", "build", "--quiet", "--workspace", "--bin=agent", "--bin=quickstart"]


@cache
def built(name: str) -> str:
    """Returns the path of a Rust program, and builds it first if necessary."""
    command = [*BUILD, "--message-format=json"]
    build = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    artifacts = [json.loads(line) for line in build.stdout.splitlines()]
    return next(
        str(one["executable"])
        for one in artifacts
        if one.get("executable") and one["target"]["name"] == name
    )


def command_line(language: str) -> list[str]:
    match language:
        case "rust":
            return [built("agent")]
        case "python" | "asyncio":
            form = "sync" if language == "python" else "asyncio"
            return [sys.executable, str(FOLDER / "agent.py"), form]
        case _:
            return ["node", str(FOLDER / "agent.mjs")]


class Program:
    """A process that writes one JSON object per line."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        offset = str(now() - time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "BOOTTIME_OFFSET_NS": offset, **(env or {})},
        )
        self._replies: queue.Queue[Reply | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._replies.put(json.loads(line))
        self._replies.put(None)

    def receive(self, timeout: float = REPLY_TIMEOUT) -> Reply:
        reply = self._replies.get(timeout=timeout)
        if reply is None:
            raise EOFError("the program has ended")
        return reply

    def received(self) -> list[Reply]:
        """Returns its output so far."""
        replies = []
        while not self._replies.empty():
            reply = self._replies.get()
            if reply is not None:
                replies.append(reply)
        return replies

    def rest(self) -> list[Reply]:
        """Returns all its output until it ends."""
        return list(iter(lambda: self._replies.get(timeout=REPLY_TIMEOUT), None))

    def silent_for(self, seconds: float) -> bool:
        """Returns whether no reply arrives for that long. A reply that does arrive is kept."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self._replies.empty():
                return False
            time.sleep(0.01)
        return True

    def pause(self) -> None:
        """Stops the process and waits for that. On a busy machine its other threads run on briefly."""
        self.process.send_signal(signal.SIGSTOP)
        stopped = os.WSTOPPED | os.WNOHANG
        eventually(
            lambda: os.waitid(os.P_PID, self.process.pid, stopped) is not None, "it does not stop"
        )

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> int:
        """Kills the process immediately and returns the time."""
        self.process.kill()
        at = now()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        return at

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Agent(Program):
    """A process that holds locks. `send` and `receive` are separate, so that an acquire can wait meanwhile."""

    def __init__(
        self,
        language: str,
        nodes: list[str],
        guard_ms: int = 0,
        env: dict[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self.language = language
        words = [*before, *command_line(language), " ".join(nodes), str(guard_ms)]
        super().__init__(*words, env=env)
        assert self.receive()["ready"]

    def send(self, do: str, **fields: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self.process.stdin.flush()

    def ask(self, do: str, **fields: object) -> Reply:
        self.send(do, **fields)
        return self.receive()

    def must(self, do: str, **fields: object) -> Reply:
        reply = self.ask(do, **fields)
        assert reply["ok"], reply
        return reply


#: Programs by form, each with its command line.
PROGRAMS = {
    "sync": (sys.executable, "witness.py", "sync"),
    "asyncio": (sys.executable, "witness.py", "asyncio"),
    "using": ("node", "witness.mjs", "using"),
    "tasks": (sys.executable, "crowd.py", "tasks"),
    "threads": (sys.executable, "crowd.py", "threads"),
    "promises": ("node", "crowd.mjs", "promises"),
}

#: The same for the candidates of an election.
CANDIDATES = {
    "python": (sys.executable, str(FOLDER / "candidate.py"), "sync"),
    "asyncio": (sys.executable, str(FOLDER / "candidate.py"), "asyncio"),
    "node": ("node", str(FOLDER / "candidate.mjs"), "run"),
    "rust": (),
}


def program(form: str, nodes: list[str], *words: str | int) -> Program:
    """Starts a program of tests/agents other than the lock holder."""
    runtime, file, first = PROGRAMS[form]
    return Program(runtime, str(FOLDER / file), first, ",".join(nodes), *map(str, words))


def candidate(form: str, nodes: list[str], name: str, ttl_ms: int) -> Program:
    """Starts a candidate of an election, and waits until it campaigns."""
    command = CANDIDATES[form] or (built("agent"), "candidate")
    program = Program(*command, ",".join(nodes), name, str(ttl_ms))
    assert program.receive()["sign"] == "campaigns"
    return program


HoldPeriod = tuple[int, int, str]


def assert_no_overlap(hold_periods: "list[HoldPeriod]") -> None:
    """Fails with a message that keeps scripts/test from running the test again."""
    found = overlaps(hold_periods)
    assert not found, f"two holders: {found}"


def overlaps(hold_periods: list[HoldPeriod]) -> list[tuple[HoldPeriod, HoldPeriod]]:
    """Returns the pairs of holds of one name that overlap. A hold has a start, an end and a holder."""
    hold_periods = sorted(hold_periods)
    found, longest = [], hold_periods[0]
    for hold_period in hold_periods[1:]:
        if longest[1] > hold_period[0]:
            found.append((longest, hold_period))
        longest = max(longest, hold_period, key=lambda each: each[1])
    return found
