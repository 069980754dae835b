"""The common part of every Python program here: it waits for the start signal and prints the measured values."""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable


def begin() -> None:
    """Reports that everything is warm. The measurement starts then."""
    print("ready", flush=True)
    sys.stdin.readline()


def finish(result: dict[str, object]) -> None:
    # Ends immediately, because the time that a library needs to close is not measured.
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)


def used() -> tuple[float, int]:
    """Returns the CPU seconds and context switches of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw + usage.ru_nivcsw


class Measured:
    """A series of pairs, timed by their callers."""

    def __init__(self, seconds: float) -> None:
        self.took: list[float] = []
        self.failed = 0
        self.cpu, self.switches = used()
        self.start = time.perf_counter()
        self.end = self.start + seconds

    def result(self) -> dict[str, object]:
        cpu, switches = used()
        took = sorted(self.took) or [0.0]
        return {
            "pairs": len(self.took),
            "seconds": time.perf_counter() - self.start,
            "p50": took[len(took) // 2] * 1e6,
            "p99": took[len(took) * 99 // 100] * 1e6,
            "cpu": cpu - self.cpu,
            "switches": switches - self.switches,
            "failed": self.failed,
        }


def memory_kb() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Held:
    """The cost of many leases. The first tenth includes everything that is allocated once, however many there are."""

    def __init__(self, count: int) -> None:
        self.count, self.tenth = count, count // 10
        self.empty, self.threads = memory_kb(), len(os.listdir("/proc/self/task"))
        self.begun = time.perf_counter()

    def first(self) -> None:
        self.kb = memory_kb()

    def taken(self) -> None:
        self.took = time.perf_counter() - self.begun
        self.each = (memory_kb() - self.kb) / (self.count - self.tenth)
        self.cpu = used()[0]

    def result(self, lost: int) -> dict[str, object]:
        threads = len(os.listdir("/proc/self/task")) - self.threads
        return {
            "leases": self.count,
            "lost": lost,
            "cpu": used()[0] - self.cpu,
            "kb": self.each,
            "first_mb": (self.kb - self.empty) / 1024,
            "threads": threads,
            "taken_s": self.took,
        }


def in_threads(callers: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
