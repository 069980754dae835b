"""Many callers in one process that each acquire the same name once. Prints a line for each hold.

crowd.py tasks|threads NODES NAME CALLERS TTL_MS [PERMITS]

README.md describes the lines.
"""

import asyncio
import json
import sys
import threading
import time

import redlock

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
HOLD = 0.002
FORM, NODES, NAME = sys.argv[1:4]
CALLERS, TTL = int(sys.argv[4]), int(sys.argv[5]) / 1000
CLIENT = redlock.Redlock(NODES.split(","), restart_guard=0)
LOCK = (
    CLIENT.semaphore(NAME, int(sys.argv[6]), ttl=TTL)
    if len(sys.argv) > 6
    else CLIENT.lock(NAME, ttl=TTL)
)


def now() -> int:
    return time.clock_gettime_ns(CLOCK)


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def task() -> None:
    async with LOCK as lease:
        at = now()
        await asyncio.sleep(HOLD)
        lease.ensure_held()
        until = now()
    say(at=at, until=until)


async def tasks() -> None:
    callers = [asyncio.create_task(task()) for _ in range(CALLERS)]
    await asyncio.sleep(0.1)
    say(waiting=sum(not caller.done() for caller in callers))
    await asyncio.gather(*callers)


def thread() -> None:
    with LOCK as lease:
        at = now()
        time.sleep(HOLD)
        lease.ensure_held()
        until = now()
    say(at=at, until=until)


def threads() -> None:
    callers = [threading.Thread(target=thread) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    time.sleep(0.1)
    say(waiting=sum(caller.is_alive() for caller in callers))
    for caller in callers:
        caller.join()


asyncio.run(tasks()) if FORM == "tasks" else threads()
