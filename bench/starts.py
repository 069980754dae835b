"""Measures start-up times: the bare runtime, an import of each library, and the time to the first lock."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable

from programs import HERE, PYTHON, ROOT, RUST
from servers import pinned, servers
from session import cores

TIMES = 15
#: The import, and the code that acquires and releases a lock once. PORT is the server's port.
PYTHONS = {
    "bare Python": ("pass", ""),
    "redlock, Python": (
        "import redlock",
        "redlock.Redlock('redis://127.0.0.1:PORT').lock('a').acquire().release()",
    ),
    "redis-py": (
        "import redis",
        "l = redis.Redis(port=PORT).lock('a', timeout=10); l.acquire(); l.release()",
    ),
    "python-redis-lock": (
        "import redis, redis_lock",
        "l = redis_lock.Lock(redis.Redis(port=PORT), 'a', expire=10); l.acquire(); l.release()",
    ),
    "redlock-py": (
        "from redlock import Redlock",
        "r = Redlock([{'host': '127.0.0.1', 'port': PORT}]); r.unlock(r.lock('a', 10000))",
    ),
}
IOREDIS = "const c = new (require('ioredis').Redis)(PORT);"
NODES = {
    "bare Node": ("0", ""),
    "redlock, Node": (
        f"const r = require('{ROOT}')",
        "const a = new r.Redlock('redis://127.0.0.1:PORT').lock('a');"
        + "a.acquire().then((l) => l.release()).then(() => process.exit())",
    ),
    "node-redlock 4": (
        "const R = require('redlock-4'); require('ioredis')",
        IOREDIS + "new R([c]).lock('a', 10000).then((l) => l.unlock()).then(() => process.exit())",
    ),
    "node-redlock 5": (
        "const R = require('redlock').default; require('ioredis')",
        IOREDIS
        + "new R([c]).acquire(['a'], 10000).then((l) => l.release()).then(() => process.exit())",
    ),
    "redis-semaphore": (
        "const S = require('redis-semaphore'); require('ioredis')",
        IOREDIS
        + "const m = new S.Mutex(c, 'a'); m.acquire().then(() => m.release()).then(() => process.exit())",
    ),
}


def commands(port: int) -> dict[tuple[str, str], list[str]]:
    found = {("redlock, Rust", "first lock"): [RUST, "redlock", "once", str(port), "1", "0"]}
    for programs, runtime, between in (
        (PYTHONS, [PYTHON, "-c"], "\n"),
        (NODES, ["node", "-e"], ";"),
    ):
        for name, (load, lock) in programs.items():
            found[name, "import"] = [*runtime, load]
            if lock:
                found[name, "first lock"] = [
                    *runtime,
                    load + between + lock.replace("PORT", str(port)),
                ]
    return found


def timed(name: str, command: list[str]) -> float:
    """Returns the milliseconds until it has ended."""
    tree = ROOT / "bindings-python" / "python"
    folder = {"PYTHONPATH": str(tree)} if name.startswith("redlock,") else {}
    # Node.js resolves packages from this folder on. Python keeps its compiled modules, as in normal use.
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        **folder,
    }
    environment["PYTHONPYCACHEPREFIX"] = str(HERE / "out" / "pycache")
    begun = time.perf_counter()
    subprocess.run(command, check=True, cwd=HERE, env=environment, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1e3


def measure(say: Callable[[str], None], quick: bool) -> dict[str, dict[str, float]]:
    took: dict[tuple[str, str], list[float]] = {}
    with pinned(cores("one")[0]), servers(1) as (server,):
        for number in range(5 if quick else TIMES):
            say(f"starts: {number + 1}")
            for (name, what), command in commands(server.port).items():
                took.setdefault((name, what), []).append(timed(name, command))
    found: dict[str, dict[str, float]] = {}
    for (name, what), times in took.items():
        # The first one reads from disk.
        found.setdefault(name, {})[what] = statistics.median(times[1:])
    return found
