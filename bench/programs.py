"""The measured programs: their library, their command line, and their abilities.

All of them take the same arguments, LIBRARY MODE PORT[,PORT...] CALLERS SECONDS. They print `ready` when they are warm,
wait for a line, work for SECONDS, and print one JSON object. The modes are:

- `pairs`: acquire and release in a closed loop, with a separate name for each caller
- `fenced`: the same with fencing tokens
- `handoff`: all callers share one name and hold it for 5 ms
- `hold`: CALLERS renewed leases
"""

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CLIENTS = HERE / "clients"
#: The benchmark's own interpreter, with the other libraries installed.
PYTHON = str(HERE / ".venv" / "bin" / "python")
RUST = str(ROOT / "target" / "release" / "callers")
BLOCKING, TASKS = str(CLIENTS / "blocking.py"), str(CLIENTS / "tasks.py")
NODE = ("node", str(CLIENTS / "callers.mjs"))
RSLOCK = str(HERE / "out" / "rslock" / "release" / "rslock-callers")
GO = str(HERE / "out" / "go-callers")
JAVA = ("java", "-XX:+UseSerialGC", "-cp")
CLASSES = f"{HERE / 'out' / 'java' / 'classes'}:{HERE / 'out' / 'java' / 'lib'}/*"
OURS = frozenset({"pairs", "fenced", "handoff", "hold"})
BOTH = frozenset({"pairs", "handoff"})


@dataclass(frozen=True)
class Program:
    name: str
    language: str
    command: tuple[str, ...]
    library: str
    modes: frozenset[str] = BOTH
    #: Whether it locks over several independent nodes.
    quorum: bool = True
    #: Part of `--quick`: our programs, the floor, and the best known other library of each language.
    quick: bool = False
    words: tuple[str, ...] = ()
    #: Programs with a warm-up of seconds are measured in fewer rounds.
    rounds: int = 99

    @property
    def ours(self) -> bool:
        return self.library.startswith("redlock") and self.library != "redlock-py"

    @property
    def floor(self) -> bool:
        return self.library == "floor"

    @property
    def is_built(self) -> bool:
        """Whether its tool chain is installed and it was built."""
        return all(
            Path(word).exists()
            for word in self.command
            if word.startswith(str(ROOT)) and ":" not in word
        )

    def environment(self) -> dict[str, str]:
        """Returns the environment. It finds our package in the tree, but hides it from redlock-py, which has the same
        import name.
        """
        folder = {"PYTHONPATH": str(ROOT / "bindings-python" / "python")} if self.ours else {}
        return {**os.environ, **folder, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": ""}


PROGRAMS = [
    Program("floor", "C", (str(HERE / "out" / "floor"),), "floor", quick=True),
    Program("redlock, Rust", "Rust", (RUST,), "redlock", OURS, quick=True),
    Program("redlock, Rust blocking", "Rust", (RUST,), "redlock-blocking", frozenset({"pairs"})),
    Program("redlock, Python", "Python", (PYTHON, BLOCKING), "redlock", OURS, quick=True),
    Program("redlock, asyncio", "Python", (PYTHON, TASKS), "redlock", OURS, quick=True),
    Program(
        "redlock, uvloop",
        "Python",
        (PYTHON, TASKS),
        "redlock",
        frozenset({"pairs"}),
        words=("uvloop",),
    ),
    Program("redlock, Node", "Node", NODE, "redlock", OURS, quick=True),
    Program(
        "redlock, Node, new Lock", "Node", NODE, "redlock-new", frozenset({"pairs"}), quick=True
    ),
    Program(
        "redlock, Node, using", "Node", NODE, "redlock-using", frozenset({"pairs"}), quick=True
    ),
    Program("rslock", "Rust", (RSLOCK,), "rslock", quick=True),
    Program("redis-py", "Python", (PYTHON, BLOCKING), "redis-py", quorum=False, quick=True),
    Program("redis-py asyncio", "Python", (PYTHON, TASKS), "redis-py", quorum=False, quick=True),
    Program(
        "redis-py uvloop",
        "Python",
        (PYTHON, TASKS),
        "redis-py",
        frozenset({"pairs"}),
        False,
        words=("uvloop",),
    ),
    Program("python-redis-lock", "Python", (PYTHON, BLOCKING), "python-redis-lock", quorum=False),
    Program("redlock-py", "Python", (PYTHON, BLOCKING), "redlock-py"),
    Program("node-redlock 4", "Node", NODE, "node-redlock-4"),
    Program("node-redlock 5", "Node", NODE, "node-redlock-5", BOTH | {"hold"}, quick=True),
    Program("redis-semaphore", "Node", NODE, "redis-semaphore", BOTH | {"hold"}, quick=True),
    Program(
        "redis-semaphore, new Mutex",
        "Node",
        NODE,
        "redis-semaphore-new",
        frozenset({"pairs"}),
        quick=True,
    ),
    Program("redsync", "Go", (GO,), "redsync", quick=True),
    Program("redsync, autopipelined", "Go", (GO,), "redsync-autopipe", frozenset({"pairs"})),
    Program("bsm/redislock", "Go", (GO,), "bsm", quorum=False, quick=True),
    Program(
        "bsm/redislock, autopipelined", "Go", (GO,), "bsm-autopipe", frozenset({"pairs"}), False
    ),
    Program(
        "Redisson",
        "Java",
        (*JAVA, CLASSES, "Callers"),
        "redisson",
        BOTH | {"hold"},
        quick=True,
        rounds=1,
    ),
]
