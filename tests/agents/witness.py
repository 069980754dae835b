"""One lease in Python, with a line for each way in which its holder learns of the loss.

witness.py sync|asyncio NODES NAME TTL_MS PACE_MS

README.md describes the lines.
"""

import asyncio
import json
import logging
import sys
import threading
import time

import redlock

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
OUTPUT_LOCK = threading.Lock()
FORM, NODES, NAME = sys.argv[1:4]
TTL, PACE = (int(word) / 1000 for word in sys.argv[4:])


def now() -> int:
    return time.clock_gettime_ns(CLOCK)


def say(sign: str, at: int | None = None, **fields: object) -> None:
    line = json.dumps({"sign": sign, "at": at or now(), **fields}) + "\n"
    with OUTPUT_LOCK:
        sys.stdout.write(line)
        sys.stdout.flush()


class Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if f"lock:{NAME}" in record.getMessage():
            say("logged", text=record.getMessage())


def begin(lease: redlock.Lease | redlock.AsyncLease) -> None:
    lease.on_lost(lambda error: say("on_lost", reason=error.reason))
    say("holds", token=lease.token)


def sync(lock: redlock.Lock) -> None:
    last = 0
    with lock as lease:
        begin(lease)
        while True:
            asked = now()
            if not lease.held:
                break
            last = asked
            if PACE:
                time.sleep(PACE)
        say("last_held", last)


async def aio(lock: redlock.Lock) -> None:
    last = 0
    async with lock as lease:
        begin(lease)
        try:
            while True:
                asked = now()
                if lease.held:
                    last = asked
                await asyncio.sleep(PACE)
        finally:
            say("last_held", last)


def main() -> None:
    logging.getLogger("redlock").addHandler(Log(logging.WARNING))
    client = redlock.Redlock(NODES.split(","), restart_guard=0)
    lock = client.lock(NAME, ttl=TTL)
    try:
        sync(lock) if FORM == "sync" else asyncio.run(aio(lock))
    except redlock.LockLost as error:
        cause = type(error.__cause__).__name__
        say("raised", reason=error.reason, cause=cause, held=any(client.leases()))
    time.sleep(0.1)  # a second notification or log line would arrive by now


main()
