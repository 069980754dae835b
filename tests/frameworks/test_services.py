"""A FastAPI service of three workers and a Celery pool of four share one Redis. They are killed and restarted at
random.
"""

import itertools
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest
import redis
import redlock

from tests.ports import free_port
from tests.servers import Server

from .groups import Group
from .test_frameworks import BIN

HERE = Path(__file__).parent / "services"
SECONDS = float(os.environ.get("SOAK_SECONDS", "25"))
NAMES = ["cart", "stock", "mail"]
#: As in services/hold_periods.py: the TTL, how long an acquire waits, and the longest work.
TTL, WAIT, LONGEST = 1.5, 2.0, 1.0
#: The time that a busy machine may add to any of them.
SLACK = 5.0


class Callers:
    """Threads that request work from the service. A thread whose reply takes too long has found a hang."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.done = threading.Event()
        self.answers: Counter[str] = Counter()
        self.slowest = 0.0
        self.threads = [threading.Thread(target=self.call) for _ in range(6)]
        for thread in self.threads:
            thread.start()

    def call(self) -> None:
        while not self.done.is_set():
            path = f"{random.choice(('async', 'sync'))}/{random.choice(NAMES)}"
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", method="POST")
            began = time.monotonic()
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    said = str(answer.status)
            except urllib.error.HTTPError as error:
                said = str(error.code)
                error.close()
            except OSError:
                said = "cut"
                time.sleep(0.05)
            self.answers[said] += 1
            self.slowest = max(self.slowest, time.monotonic() - began)

    def end(self) -> None:
        self.done.set()
        for thread in self.threads:
            thread.join()


class KeyWatcher:
    """Watches the server continuously. Each key has a TTL, and no token outlives its work."""

    def __init__(self, server: Server) -> None:
        self.client = redis.Redis(port=server.port, decode_responses=True)
        self.since: dict[tuple[str, str], float] = {}
        self.oldest = 0.0
        self.wrong: list[str] = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while not self.done.wait(0.02):
            for name in NAMES:
                pipe = self.client.pipeline()
                pipe.get(f"svc:{name}")
                pipe.pttl(f"svc:{name}")
                token, left = pipe.execute()
                if token is None:
                    continue
                first = self.since.setdefault((name, token), time.monotonic())
                self.oldest = max(self.oldest, time.monotonic() - first)
                if not -2 <= left <= TTL * 1000 or left == -1:
                    self.wrong.append(f"{name} ends in {left} ms")

    def end(self) -> None:
        self.done.set()
        self.thread.join()
        self.client.close()

    def remaining_keys(self) -> list[str]:
        """Returns the keys that remain after all processes are dead and every TTL has ended."""
        end = time.monotonic() + TTL + SLACK
        while left := [name for name in NAMES if self.client.exists(f"svc:{name}")]:
            if time.monotonic() > end:
                return left
            time.sleep(0.02)
        return []


def overlaps(lines: list[str]) -> tuple[int, list[str]]:
    """Returns the number of hold periods, and those that overlap or whose tokens do not grow."""
    hold_periods: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        name, token, _, at = line.split()
        hold_periods[name][int(token)].append(int(at))
    wrong = []
    for name, by_token in hold_periods.items():
        order = sorted((min(moments), max(moments), token) for token, moments in by_token.items())
        for before, after in itertools.pairwise(order):
            if before[1] >= after[0]:
                wrong.append(f"{name}: {before} and {after} at once")
            if before[2] >= after[2]:
                wrong.append(f"{name}: token {after[2]} after {before[2]}")
    return sum(map(len, hold_periods.values())), wrong


def inject_failure(chance: random.Random, group: Group, which: str) -> str:
    """Kills a process or a group. Returns a description."""
    how = chance.choice(("child", "child", "all", "term"))
    if how == "child":
        return f"{which}: a child killed" if group.kill_one(chance.choice) else ""
    if how == "all":
        group.kill()
    else:
        group.end()
    group.start()
    group.ready()
    return f"{which}: {'all killed' if how == 'all' else 'SIGTERM'}"


def alive(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/nowhere", timeout=20).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def key_watcher(server: Server) -> Iterator[KeyWatcher]:
    key_watcher = KeyWatcher(server)
    yield key_watcher
    key_watcher.end()


@pytest.fixture
def services(server: Server, tmp_path: Path) -> Iterator[dict[str, Group]]:
    """Starts both services and the program that sends tasks."""
    port = free_port()
    environment = {
        **os.environ,
        "REDIS_URL": server.url,
        "HOLD_PERIODS": str(tmp_path / "hold_periods"),
    }
    place = {"cwd": HERE, "env": environment}
    python = str(BIN / "python")
    uvicorn = [python, "-m", "uvicorn", "service:app", "--port", str(port), "--workers", "3"]
    uvicorn += ["--log-level", "warning", "--timeout-graceful-shutdown", "5"]
    celery = [str(BIN / "celery"), "-A", "tasks", "worker", "-P", "prefork", "-c", "4"]
    celery += ["-l", "WARNING", "--without-gossip", "--without-mingle"]
    groups: dict[str, Group] = {}
    try:
        web = Group(uvicorn, tmp_path / "uvicorn.log", lambda: alive(port), **place)
        groups["uvicorn"] = web
        pool = Group(celery, tmp_path / "celery.log", lambda: len(pool.children()) >= 4, **place)
        groups["celery"] = pool
        for group in groups.values():
            group.ready()
        sender = [python, "tasks.py", *NAMES]
        groups["sender"] = Group(sender, tmp_path / "sender.log", lambda: True, **place)
        yield groups
    finally:
        for group in groups.values():
            group.kill()


def struck(services: dict[str, Group]) -> Counter[str]:
    """Kills for SECONDS, and everything at the end. Returns what was killed."""
    chance = random.Random(os.environ.get("SOAK_SEED", "7"))
    deaths: Counter[str] = Counter()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.3, 2.0))
        which = chance.choice(("uvicorn", "celery"))
        deaths[inject_failure(chance, services[which], which)] += 1
    for group in services.values():
        group.kill()
    return deaths


@pytest.mark.limit(SECONDS + 200)
def test_random_kills_leave_one_holder_and_no_key(
    server: Server, key_watcher: KeyWatcher, services: dict[str, Group], tmp_path: Path
) -> None:
    words = services["uvicorn"].words
    callers = Callers(int(words[words.index("--port") + 1]))
    try:
        deaths = struck(services)
    finally:
        callers.end()
    assert not key_watcher.remaining_keys()
    with redlock.Redlock(server.url, key_prefix="svc:") as client:
        for name in NAMES:
            client.lock(name, wait=0).acquire().release()
    lines = (tmp_path / "hold_periods").read_text().splitlines()
    hold_periods, wrong = overlaps(lines)
    print(f"\n{SECONDS:g} s, deaths: {dict(deaths)}; answers: {dict(callers.answers)}")
    print(
        f"{hold_periods} hold periods by {len({line.split()[2] for line in lines})} processes; ",
        end="",
    )
    print(f"slowest answer {callers.slowest:.2f} s, oldest token {key_watcher.oldest:.2f} s")
    assert not wrong, wrong[:5]
    assert not key_watcher.wrong, key_watcher.wrong[:5]
    # Acquired immediately, worked for the longest time, killed, and expired after its TTL.
    assert key_watcher.oldest < LONGEST + TTL + SLACK
    assert callers.slowest < WAIT + LONGEST + 2 * SLACK
    assert set(callers.answers) <= {"200", "409", "cut"}, callers.answers
    assert hold_periods > SECONDS
    assert sum(deaths.values()) > SECONDS / 10


def test_witness_detects_two_holders() -> None:
    good = ["cart 1 10 100", "cart 1 10 200", "cart 2 11 300", "mail 9 10 150"]
    assert overlaps(good) == (3, [])
    assert overlaps([*good, "cart 3 12 250", "cart 3 12 290"]) == (4, [ANY])
    assert overlaps([*good, "cart 1 10 350"]) == (3, [ANY])
    assert overlaps(["cart 5 1 100", "cart 4 1 200"]) == (2, [ANY])
