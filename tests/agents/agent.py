"""A lock holder in Python that reads one JSON command per line on stdin and writes one JSON reply per line on stdout.

README.md describes the protocol.
"""

import asyncio
import concurrent.futures
import inspect
import json
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import redlock
from redlock.testing import TestRedlock

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
Reply = dict[str, Any]

#: Options of a lock, and those of them that are durations. Their fields end with `_ms`.
OF_LOCK = ("renew", "fencing", "label")
LOCK_DURATIONS = ("ttl", "min_hold", "max_hold", "node_timeout")
#: The same for a client.
OF_CLIENT = ("key_prefix", "label", "min_replicas", "fsync", "client_name")
OF_TLS = ("tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_verify")
CLIENT_DURATIONS = ("node_timeout", "connect_timeout", "unavailable_after", "restart_guard")


def now() -> int:
    return time.clock_gettime_ns(CLOCK)


def options_in(command: Reply, plain: tuple[str, ...], durations: tuple[str, ...]) -> Reply:
    """Returns the options that a command has, with durations in seconds."""
    options = {field: command[field] for field in plain if field in command}
    for field in durations:
        if (value := command.get(f"{field}_ms", ...)) is not ...:
            options[field] = seconds(value)
    return options


def seconds(ms: float | str | None) -> float | None:
    """Converts a duration. "nan" and "inf" are not numbers in JSON."""
    return None if ms is None else float(ms) / 1000


def ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


async def result(value: Any) -> Any:  # noqa: ANN401  (the value of any call)
    """Returns what a call of either form returned."""
    return await value if inspect.isawaitable(value) else value


def complete(coroutine: Coroutine[Any, Any, Reply | None]) -> Reply | None:
    """Runs a coroutine whose calls block."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a call did not block")


def settle(future: "concurrent.futures.Future[Any]", value: object) -> None:
    with suppress(concurrent.futures.InvalidStateError):
        future.set_result(value)


class Agent:
    def __init__(self, nodes: list[str], guard: float, is_async: bool) -> None:
        self.nodes, self.guard, self.is_async = nodes, guard, is_async
        self.replicas = int(os.environ.get("MIN_REPLICAS", "0"))
        self.clients: dict[str, Any] = {}
        self.leases: dict[str, Any] = {}
        #: By lease: the candidate of a run, its body's end, its task, and what happened to it.
        self.leaders: dict[str, Any] = {}
        self.ends: dict[str, concurrent.futures.Future[str]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.events: dict[str, Any] = {}

    def new_client(self, nodes: list[str], options: Reply) -> Any:  # noqa: ANN401  (in either form)
        if nodes == ["memory://"]:
            client: redlock.Redlock = TestRedlock(**options)
            # Further clients use the same node.
            self.nodes = client.nodes
        else:
            # A failover on a busy machine may take longer than the default.
            usual: Reply = {"unavailable_after": None, "restart_guard": self.guard}
            usual |= {"min_replicas": self.replicas}
            client = redlock.Redlock(nodes, **usual | options)
        return client.as_async() if self.is_async else client

    async def client(self, command: Reply) -> Reply:
        given = options_in(command, OF_CLIENT + OF_TLS, CLIENT_DURATIONS)
        client = self.new_client(command.get("nodes", self.nodes), given)
        self.clients[command["client"]] = client
        return {"nodes": client.nodes}

    def client_of(self, command: Reply) -> Any:  # noqa: ANN401  (in either form)
        key = command.get("client", "one")
        if key not in self.clients:
            self.clients[key] = self.new_client(self.nodes, {})
        return self.clients[key]

    def lock(self, command: Reply) -> Any:  # noqa: ANN401  (in either form)
        client, name = self.client_of(command), command["name"]
        options = options_in(command, OF_LOCK, LOCK_DURATIONS)
        match command:
            case {"limit": limit}:
                return client.semaphore(name, limit, permits=command.get("permits"), **options)
            case {"side": side}:
                return getattr(client.rwlock(name), side)(**options)
            case _:
                return client.lock(name, **options)

    def lease_of(self, command: Reply) -> Any:  # noqa: ANN401  (in either form)
        return self.leases[command.get("lease", "lease")]

    def keep(self, command: Reply, lease: Any) -> Reply:  # noqa: ANN401  (in either form)
        at = now()
        self.leases[command.get("lease", "lease")] = lease
        return {"at": at, "token": lease.token, "keys": lease.keys, **self.state(lease)}

    def state(self, lease: Any) -> Reply:  # noqa: ANN401  (in either form)
        state = {"held": lease.held, "remaining_ms": ms(lease.remaining), "ttl_ms": ms(lease.ttl)}
        state["shown"] = repr(lease)
        try:
            return state | {"fencing_token": lease.fencing_token}
        except redlock.InvalidOption:
            return state

    async def acquire(self, command: Reply) -> Reply:
        lock, wait = self.lock(command), seconds(command["wait_ms"])
        return self.keep(command, await result(lock.acquire(wait=wait)))

    async def try_(self, command: Reply) -> Reply:
        lease = await result(self.lock(command).try_acquire())
        if lease is None:
            return {"ok": False, "code": "held", "message": "held by another"}
        return self.keep(command, lease)

    async def hold(self, command: Reply) -> Reply:
        options = {"ttl": command["ttl_ms"] / 1000} if "ttl_ms" in command else {}
        return self.keep(
            command, await result(self.client_of(command).hold(command["name"], **options))
        )

    async def attach(self, command: Reply) -> Reply:
        return self.keep(command, await result(self.lock(command).attach(command["token"])))

    async def extend(self, command: Reply) -> Reply:
        await result(self.lease_of(command).extend(ttl=command["ttl_ms"] / 1000))
        return self.state(self.lease_of(command))

    async def release(self, command: Reply) -> Reply:
        await result(self.lease_of(command).release())
        return {}

    async def detach(self, command: Reply) -> Reply:
        return {"held": self.lease_of(command).detach()}

    async def held(self, command: Reply) -> Reply:
        return self.state(self.lease_of(command))

    async def ensure_held(self, command: Reply) -> Reply:
        self.lease_of(command).ensure_held()
        return {}

    async def fencing_token(self, command: Reply) -> Reply:
        return {"fencing_token": self.lease_of(command).fencing_token}

    async def inspect(self, command: Reply) -> Reply:
        found = await result(self.lock(command).inspect())
        nodes = [
            {field: getattr(node, field) for field in ("key", "state", "token", "label", "error")}
            for node in found.nodes
        ]
        fields = {
            field: getattr(found, field) for field in ("held", "mode", "taken", "limit", "label")
        }
        return {**fields, "remaining_ms": ms(found.remaining), "nodes": nodes}

    async def keys(self, command: Reply) -> Reply:
        lock = self.lock(command)
        return {"key": lock.key, "keys": lock.keys, "shown": repr(lock)}

    async def force_release(self, command: Reply) -> Reply:
        lock = self.lock(command)
        return {"deleted": await result(self.client_of(command).force_release(lock))}

    async def list_leases(self, command: Reply) -> Reply:
        return {"tokens": sorted(lease.token for lease in self.client_of(command).leases())}

    async def release_all(self, command: Reply) -> Reply:
        return {"released": await result(self.client_of(command).release_all())}

    async def shutdown(self, command: Reply) -> Reply:
        ended = self.client_of(command).shutdown(command["timeout_ms"] / 1000)
        return {"released": await result(ended)}

    async def stats(self, command: Reply) -> Reply:
        stats = self.client_of(command).stats()
        times = {"time_waited_ms": ms(stats.time_waited), "time_held_ms": ms(stats.time_held)}
        fields = (
            "granted",
            "refused",
            "timed_out",
            "unavailable",
            "released",
            "renewed",
            "waiting",
        )
        counts = {field: getattr(stats, field) for field in (*fields, "held", "lost")}
        return counts | times

    async def ping(self, command: Reply) -> Reply:
        found = await result(self.client_of(command).ping(command["timeout_ms"] / 1000))
        nodes = [
            {"url": node.url, "ready": node.ready, "ready_in_ms": ms(node.ready_in)}
            | {"latency_ms": ms(node.latency), "error": node.error}
            for node in found.nodes
        ]
        return {"ready": found.ready, "ready_in_ms": ms(found.ready_in), "nodes": nodes}

    async def close(self, command: Reply) -> Reply:
        self.client_of(command).close()
        return {}

    async def lose(self, command: Reply) -> Reply:
        return {"lost": await result(self.client_of(command).lose(command["name"]))}

    async def advance(self, command: Reply) -> Reply:
        await result(self.client_of(command).advance(command["ms"] / 1000))
        return {}

    async def jump(self, command: Reply) -> Reply:
        await result(self.client_of(command).jump(command["ms"] / 1000))
        return {}

    async def fail(self, command: Reply) -> Reply:
        self.client_of(command).fail()
        return {}

    async def recover(self, command: Reply) -> Reply:
        self.client_of(command).recover()
        return {}

    async def lost(self, command: Reply) -> Reply:
        lease, timeout = self.lease_of(command), command["timeout_ms"] / 1000
        told = concurrent.futures.Future[Reply]()
        lease.on_lost(lambda error: settle(told, {"at": now(), "reason": error.reason}))
        try:
            word: Reply = await self.settled(told, timeout)
        except TimeoutError:
            return {"ok": False, "code": "timeout", "message": "not lost"}
        assert not lease.held
        return word

    async def settled(
        self, future: "concurrent.futures.Future[Any]", timeout: float | None = None
    ) -> Any:  # noqa: ANN401  (the result of any future)
        if self.is_async:
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        return future.result(timeout)

    async def once(self, command: Reply) -> Reply:
        options = options_in(command, OF_LOCK, (*LOCK_DURATIONS, "remember", "wait"))
        return await self.start(command, self.client_of(command).once(command["name"], **options))

    async def lead(self, command: Reply) -> Reply:
        leader = self.leaders[command["lease"]] = self.leader_of(command)
        return await self.start(command, leader)

    def leader_of(self, command: Reply) -> Any:  # noqa: ANN401  (in either form)
        options = options_in(command, OF_LOCK, LOCK_DURATIONS)
        return self.client_of(command).leader(command["name"], **options)

    async def leader(self, command: Reply) -> Reply:
        leader = self.leaders.get(command["lease"]) or self.leader_of(command)
        return {"leads": leader.is_leading, "current": await result(leader.current())}

    async def start(self, command: Reply, runner: Any) -> Reply:  # noqa: ANN401  (in either form)
        """Runs a body that waits for `end`, and returns what happens first."""
        key = command["lease"]
        events = self.events[key] = asyncio.Queue() if self.is_async else queue.Queue()

        async def body(*leases: Any) -> None:  # noqa: ANN401  (in either form)
            end = self.ends[key] = concurrent.futures.Future()
            for lease in leases:
                lease.on_lost(lambda _: settle(end, "returns"))
            events.put_nowait({"begun": True, **(self.keep(command, *leases) if leases else {})})
            if await self.settled(end) == "fails":
                self.client_of(command).lock("")

        async def ran() -> Reply:
            form = body if self.is_async else lambda *leases: complete(body(*leases))
            value = await result(runner.run(form))
            return {"begun": False, "ran": value[0] if value else True}

        async def run() -> None:
            events.put_nowait(await self.reply(ran()))

        if self.is_async:
            self.tasks[key] = asyncio.create_task(run())
        else:
            threading.Thread(target=complete, args=(run(),), daemon=True).start()
        return await self.next(command)

    async def next(self, command: Reply) -> Reply:
        event: Reply = await result(self.events[command["lease"]].get())
        return event

    async def end(self, command: Reply) -> Reply:
        settle(self.ends[command["lease"]], command["how"])
        return await self.next(command)

    async def run(self, command: Reply) -> Reply:
        do = str(command["do"])
        verb = getattr(self, "try_" if do == "try" else do)
        return {**await self.reply(verb(command)), "id": command.get("id")}

    async def reply(self, running: Awaitable[Reply]) -> Reply:
        try:
            reply = await running
        except redlock.LockError as error:
            fields = ("url", "state", "error")
            nodes = [{field: getattr(node, field) for field in fields} for node in error.nodes]
            reply = {"ok": False, "code": error.code, "message": str(error), "nodes": nodes}
            reply |= {field: getattr(error, field) for field in ("resource", "reason", "holder")}
            reply |= {f"{field}_ms": ms(getattr(error, field)) for field in ("waited", "remaining")}
            reply["shown"] = f"{error!r} {vars(error)} {error.nodes} {self.clients}"
            reply["shown"] += str(pickle.dumps(error))
        return {"ok": True, "at": now(), **reply}


WRITING = threading.Lock()


def say(reply: Reply) -> None:
    with WRITING:
        print(json.dumps(reply), flush=True)


def read_commands(begin: Callable[[Reply], object]) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            return
        begin(command)


async def serve(agent: Agent) -> None:
    """Runs each command as a task. The loop of the tasks is not blocked by the wait for the next command."""
    loop, tasks = asyncio.get_running_loop(), set()

    async def run(command: Reply) -> None:
        say(await agent.run(command))

    def begin(command: Reply) -> None:
        task = loop.create_task(run(command))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    await asyncio.to_thread(read_commands, lambda each: loop.call_soon_threadsafe(begin, each))


def main() -> None:
    form, nodes, guard_ms = sys.argv[1], sys.argv[2].split(), float((*sys.argv, "0")[3])
    agent = Agent(nodes, guard_ms / 1000, form == "asyncio")
    say({"ready": True, "pid": os.getpid()})
    if form == "asyncio":
        asyncio.run(serve(agent))
    else:
        run = agent.run
        read_commands(
            lambda command: threading.Thread(
                target=lambda: say(complete(run(command)) or {}), daemon=True
            ).start()
        )


main()
