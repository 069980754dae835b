"""A lock holder in Python that reads one JSON command per line on stdin and writes one JSON reply per line on stdout.

README.md describes the protocol.
"""

import contextlib
import json
import os
import queue
import sys
import time
from typing import Any

import redlock

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
Reply = dict[str, Any]


def now() -> int:
    return time.clock_gettime_ns(CLOCK)


class Agent:
    def __init__(self, nodes: list[str], guard: float) -> None:
        replicas = int(os.environ.get("MIN_REPLICAS", "0"))
        # A failover on a busy machine may take longer than the default.
        self.client = redlock.Redlock(
            nodes, restart_guard=guard, min_replicas=replicas, unavailable_after=None
        )
        self.lease: redlock.Lease | None = None

    def lock(self, command: Reply) -> redlock.Lock:
        name, ttl = command["name"], command.get("ttl_ms", 10_000) / 1000
        min_hold = command.get("min_hold_ms", 0) / 1000
        if "limit" in command:
            limit, permits = command["limit"], command.get("permits")
            return self.client.semaphore(name, limit, permits=permits, ttl=ttl, min_hold=min_hold)
        fencing = command.get("fencing", False)
        if command.get("side") == "read":
            return self.client.rwlock(name).read(ttl=ttl)
        if "side" in command:
            return self.client.rwlock(name).write(ttl=ttl, fencing=fencing, min_hold=min_hold)
        return self.client.lock(name, ttl=ttl, fencing=fencing, min_hold=min_hold)

    def held_lease(self) -> redlock.Lease:
        assert self.lease is not None
        return self.lease

    def keep(self, lease: redlock.Lease) -> Reply:
        at = now()
        self.lease = lease
        reply: Reply = {
            "at": at,
            "token": lease.token,
            "remaining_ms": lease.remaining * 1000,
            "keys": lease.keys,
        }
        with contextlib.suppress(redlock.InvalidOption):
            reply["fencing_token"] = lease.fencing_token
        return reply

    def acquire(self, command: Reply) -> Reply:
        wait = command["wait_ms"]
        return self.keep(self.lock(command).acquire(wait=None if wait is None else wait / 1000))

    def try_(self, command: Reply) -> Reply:
        lease = self.lock(command).try_acquire()
        if lease is None:
            return {"ok": False, "code": "held", "message": "held by another"}
        return self.keep(lease)

    def attach(self, command: Reply) -> Reply:
        return self.keep(self.lock(command).attach(command["token"]))

    def extend(self, command: Reply) -> Reply:
        self.held_lease().extend(ttl=command["ttl_ms"] / 1000)
        return {"remaining_ms": self.held_lease().remaining * 1000}

    def release(self, command: Reply) -> Reply:
        self.held_lease().release()
        return {}

    def detach(self, command: Reply) -> Reply:
        return {"held": self.held_lease().detach()}

    def held(self, command: Reply) -> Reply:
        lease = self.held_lease()
        return {"held": lease.held, "remaining_ms": lease.remaining * 1000}

    def inspect(self, command: Reply) -> Reply:
        found = self.lock(command).inspect()
        return {"held": found.held, "mode": found.mode, "taken": found.taken, "limit": found.limit}

    def force_release(self, command: Reply) -> Reply:
        return {"deleted": self.client.force_release(self.lock(command))}

    def lost(self, command: Reply) -> Reply:
        lease, told = self.held_lease(), queue.SimpleQueue[Reply]()
        lease.on_lost(lambda error: told.put({"at": now(), "reason": error.reason}))
        try:
            word = told.get(timeout=command["timeout_ms"] / 1000)
        except queue.Empty:
            return {"ok": False, "code": "timeout", "message": "not lost"}
        assert not lease.held
        return word

    def run(self, command: Reply) -> Reply:
        verb = getattr(self, {"try": "try_"}.get(command["do"], command["do"]))
        try:
            reply = verb(command)
        except redlock.LockError as error:
            reply = {"ok": False, "code": error.code, "message": str(error)}
        return {"ok": True, "at": now(), **reply}


def main() -> None:
    nodes, guard_ms = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
    agent = Agent(nodes.split(), guard_ms / 1000)
    print(json.dumps({"ready": True, "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            return
        print(json.dumps(agent.run(command)), flush=True)


main()
