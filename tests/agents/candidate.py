"""A candidate of an election in Python, with a line for the begin and the end of each term.

candidate.py sync|asyncio NODES NAME TTL_MS

README.md describes the lines.
"""

import asyncio
import json
import sys
import time

import redlock

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
FORM, NODES, NAME, TTL_MS = sys.argv[1:5]
PAUSE = 0.005


def now() -> int:
    return time.clock_gettime_ns(CLOCK)


def say(sign: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"sign": sign, "at": now(), **fields}) + "\n")
    sys.stdout.flush()


def sync(lease: redlock.Lease) -> None:
    last = now()
    say("leads", fence=lease.fencing_token)
    while True:
        asked = now()
        if not lease.held:
            break
        last = asked
        time.sleep(PAUSE)
    say("ended", last=last)


async def aio(lease: redlock.AsyncLease) -> None:
    last = now()
    say("leads", fence=lease.fencing_token)
    try:
        while True:
            asked = now()
            if lease.held:
                last = asked
            await asyncio.sleep(PAUSE)
    finally:
        say("ended", last=last)


def main() -> None:
    client = redlock.Redlock(NODES.split(","), restart_guard=0)
    leader = client.leader(NAME, ttl=int(TTL_MS) / 1000, fencing=True, label=FORM)
    say("campaigns")
    if FORM == "sync":
        leader.run(sync)
    else:
        asyncio.run(leader.as_async().run(aio))


main()
