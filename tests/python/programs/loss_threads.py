"""Prints the threads of the package before and after the first loss callback."""

import os
import threading

import redlock


def threads() -> list[str]:
    names = []
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm") as file:
            names.append(file.read().strip())
    # Development builds have the feature `metrics`, unlike the package.
    return sorted({name for name in names if name.startswith("redlock-")} - {"redlock-metrics"})


def threads_with(name: str) -> list[str]:
    # A thread sets its name itself, after its start.
    while name not in threads():
        os.sched_yield()
    return threads()


client, told = redlock.Redlock("memory://"), threading.Event()
with client.lock("job"):
    print(threads_with("redlock-log"))
with client.lock("job").acquire() as lease:
    lease.on_lost(lambda _: told.set())
    print(threads_with("redlock-losses"))
