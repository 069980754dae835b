"""A waiting thread reads its own reply. The background thread is not woken for it, and does all other work."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis
import redlock

from tests.servers import Server
from tests.waiting import eventually

from .processes import run

if sys.platform != "linux":
    pytest.skip("this test identifies threads by /proc", allow_module_level=True)

PAIRS = 1000

#: Prints how often the background thread was blocked, and then woken, during PAIRS pairs.
SWITCH_COUNTER = """
import asyncio, sys, time, redlock
from pathlib import Path

def switches():
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "redlock":
            lines = (task / "status").read_text().splitlines()
            return int([line for line in lines if line.startswith("voluntary")][0].split()[1])

kind, url, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = redlock.Redlock([url])
lock = client.lock("counted", ttl=20)

def sync():
    for _ in range(100):
        lock.acquire().release()
    time.sleep(1)
    before = switches()
    for _ in range(pairs):
        lock.acquire().release()
    print(switches() - before)

async def loop():
    for _ in range(100):
        await (await lock.as_async().acquire()).release()
    await asyncio.sleep(1)
    before = switches()
    for _ in range(pairs):
        await (await lock.as_async().acquire()).release()
    print(switches() - before)

if kind == "sync":
    sync()
elif kind == "uvloop":
    import uvloop
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(loop())
else:
    asyncio.run(loop())
"""


@pytest.mark.parametrize("kind", ["sync", "asyncio", "uvloop"])
@pytest.mark.slow("counts how often a thread sleeps")
def test_acquire_and_release_wake_no_other_thread(kind: str, redis_server: Server) -> None:
    counted = run(SWITCH_COUNTER, kind, redis_server.url, str(PAIRS))
    out, err = counted.communicate(timeout=60)
    assert counted.returncode == 0, err
    # Its regular wake-ups are a few per second. There were 2,000 and more when it did the reading.
    assert int(out) < PAIRS // 4


def connections_of(server: Server, prefix: str) -> "list[dict[str, Any]]":
    """Returns the connections of a client with this name on the server."""
    with redis.Redis(port=server.port) as admin:
        listed: list[dict[str, Any]] = admin.client_list()
    return [row for row in listed if row["name"].startswith(prefix)]


def wait_for_both_connections(client: redlock.Redlock, server: Server, name: str) -> None:
    """Waits until a connection for notifications exists."""
    while len(connections_of(server, name)) < 2:
        client.lock(f"{name}-warm").acquire().release()


@pytest.mark.parametrize("which", [0, 1])
def test_waiter_survives_the_cut_of_either_connection(which: int, redis_server: Server) -> None:
    name = f"cut-{which}"
    with redlock.Redlock([redis_server.url], client_name=name) as client:
        wait_for_both_connections(client, redis_server, name)
        holder = redlock.Redlock([redis_server.url])
        for _ in range(5):
            lease = holder.lock(name, ttl=30).acquire()
            rows = sorted(connections_of(redis_server, name), key=lambda row: int(row["id"]))
            with redis.Redis(port=redis_server.port) as admin:
                admin.client_kill_filter(_id=rows[which]["id"])
            taken: list[bool] = []

            def wait(taken: "list[bool]" = taken) -> None:
                client.lock(name, ttl=30).acquire(wait=60).release()
                taken.append(True)

            waiter = threading.Thread(target=wait)
            waiter.start()
            eventually(lambda: client.stats().waiting == 1)
            lease.release()
            waiter.join()
            assert taken
            wait_for_both_connections(client, redis_server, name)


def test_acquires_work_with_a_single_connection(redis_server: Server) -> None:
    server = Server("--maxclients", "8")
    try:
        taken = [redis.Redis(port=server.port) for _ in range(6)]
        for other in taken:
            other.ping()
        with redlock.Redlock([server.url], restart_guard=0) as client:
            for _ in range(200):
                client.lock("one").acquire().release()
            assert client.stats().reconnects == 0
        for other in taken:
            other.close()
    finally:
        server.close()


@pytest.mark.slow("a loop that is blocked for seconds")
def test_blocked_loop_does_not_close_the_connection(redis_server: Server) -> None:
    """Replies are read meanwhile, so silence is the server's and not ours."""

    async def main() -> None:
        with redlock.Redlock([redis_server.url]) as client:
            await (await client.lock("warm").as_async().acquire()).release()
            lease = await client.lock("blocked-held", ttl=1).as_async().acquire()
            for _ in range(3):
                asks = [
                    asyncio.create_task(client.lock(f"blocked-{n}", ttl=20).as_async().acquire())
                    for n in range(20)
                ]
                await asyncio.sleep(0)
                time.sleep(2)
                for granted in await asyncio.gather(*asks):
                    await granted.release()
            assert lease.held
            await lease.release()
            assert client.stats().reconnects == 0

    asyncio.run(main())


@pytest.mark.slow("a ttl that ends on a real server")
def test_grant_that_expired_in_a_blocked_loop_is_acquired_again(
    redis_server: Server,
) -> None:
    async def main() -> None:
        with redlock.Redlock([redis_server.url]) as client:
            await (await client.lock("warm").as_async().acquire()).release()
            for wait in (0, 0.1):
                asked = asyncio.create_task(
                    client.lock("late", ttl=0.3, wait=wait).as_async().acquire()
                )
                await asyncio.sleep(0)
                time.sleep(1)
                lease = await asked
                assert lease.held
                await lease.release()

    asyncio.run(main())


@pytest.mark.limit(60)
@pytest.mark.slow("seconds of load, and how long each acquire takes")
def test_threads_and_loops_can_share_one_client(redis_server: Server) -> None:
    """Another thread reads for a thread that cannot become the reader, and no thread waits long."""
    with redlock.Redlock([redis_server.url]) as client:
        slowest: list[float] = []
        end = time.monotonic() + 4

        def thread(number: int) -> None:
            lock, worst = client.lock(f"shared-t{number}", ttl=20), 0.0
            while (began := time.monotonic()) < end:
                lock.acquire().release()
                worst = max(worst, time.monotonic() - began)
            slowest.append(worst)

        async def task(number: int) -> None:
            lock, worst = client.lock(f"shared-a{number}", ttl=20), 0.0
            while (began := time.monotonic()) < end:
                await (await lock.as_async().acquire()).release()
                worst = max(worst, time.monotonic() - began)
            slowest.append(worst)

        async def tasks() -> None:
            await asyncio.gather(*(task(number) for number in range(8)))

        loops = [threading.Thread(target=lambda: asyncio.run(tasks())) for _ in range(2)]
        threads = [threading.Thread(target=thread, args=(number,)) for number in range(6)]
        for one in loops + threads:
            one.start()
        for one in loops + threads:
            one.join()
        assert len(slowest) == 6 + 2 * 8
        # An unread reply waits for the next quarter of a second, or forever. The limit of a vote is 50 ms and more.
        assert max(slowest) < 2
        assert client.stats().reconnects == 0


def test_forked_child_does_not_inherit_the_reader_role(redis_server: Server) -> None:
    with redlock.Redlock([redis_server.url]) as client:
        used_by_parent = client.lock("seat", ttl=20)
        stop = threading.Event()

        def go_on() -> None:
            while not stop.is_set():
                used_by_parent.acquire().release()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            for _ in range(30):
                child = os.fork()
                if child == 0:
                    try:
                        client.lock("child", ttl=20).acquire(wait=10).release()
                        os._exit(0)
                    except BaseException:
                        os._exit(1)
                _, status = os.waitpid(child, 0)
                assert status == 0
        finally:
            stop.set()
            thread.join()
        assert client.stats().reconnects == 0


def test_descriptors_and_threads_do_not_grow(redis_server: Server) -> None:
    """Threads and loops that come and go leave no descriptor open."""

    async def once(client: redlock.Redlock) -> None:
        await (await client.lock("grows").as_async().acquire()).release()

    def used_by(client: redlock.Redlock) -> None:
        client.lock("grows").acquire().release()
        asyncio.run(once(client))

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with redlock.Redlock([redis_server.url]) as client:
        before = 0
        for number in range(60):
            thread = threading.Thread(target=used_by, args=(client,))
            thread.start()
            thread.join()
            if number == 9:
                before = opened()
        assert opened() <= before + 4


@pytest.mark.parametrize("kind", ["selector", "uvloop"])
@pytest.mark.slow("the processor's time of an idle second")
def test_loop_can_move_to_another_thread(kind: str, redis_server: Server) -> None:
    """The loop is set up on one thread and runs on another, as in programs with a loop thread. An acquire may be in
    progress.
    """
    if kind == "uvloop":
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    with (
        redlock.Redlock([redis_server.url]) as client,
        redlock.Redlock([redis_server.url]) as other,
    ):

        async def once(name: str) -> None:
            await (await client.lock(name, wait=10).as_async().acquire()).release()

        loop.run_until_complete(once("moves"))
        held = other.lock("moves-held", ttl=20).acquire()

        async def begin() -> "asyncio.Task[None]":
            waiting = asyncio.create_task(once("moves-held"))
            await asyncio.sleep(0.05)
            return waiting

        waiting = loop.run_until_complete(begin())
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            for _ in range(50):
                asyncio.run_coroutine_threadsafe(once("moves"), loop).result(10)
            held.release()

            async def ended() -> None:
                await waiting

            asyncio.run_coroutine_threadsafe(ended(), loop).result(10)
            begun = time.thread_time()
            idle = time.process_time()
            time.sleep(1)
            assert time.process_time() - idle - (time.thread_time() - begun) < 0.5, "it spins"
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
        loop.run_until_complete(once("moves"))
    loop.close()


@pytest.mark.slow("a loop that stands still for a second")
def test_cut_is_noticed_while_a_stopped_loop_is_the_reader(redis_server: Server) -> None:
    """Losses are still reported, although the stopped loop was the reader of the connection that is cut."""
    name = "stopped"
    with redlock.Redlock([redis_server.url], client_name=name) as client:
        loop = asyncio.new_event_loop()

        async def use() -> None:
            for _ in range(50):
                await (await client.lock("stopped-warm").as_async().acquire()).release()
                await asyncio.sleep(0.01)

        while len(connections_of(redis_server, name)) < 2:
            loop.run_until_complete(use())
        notified: list[float] = []
        lease = client.lock(name, ttl=60).acquire()
        lease.on_lost(lambda _: notified.append(time.monotonic()))
        loop.run_until_complete(use())
        time.sleep(1)
        before = {row["id"] for row in connections_of(redis_server, name)}
        with redis.Redis(port=redis_server.port) as admin:
            admin.client_kill_filter(_id=min(before, key=int))
            end = time.monotonic() + 10
            while not {row["id"] for row in connections_of(redis_server, name)} - before:
                assert time.monotonic() < end, "the client does not reconnect"
                time.sleep(0.01)
            time.sleep(0.3)
            admin.delete(f"lock:{name}")
        while not notified:
            assert time.monotonic() < end, "the loss is not reported"
            time.sleep(0.01)
        loop.close()


def test_loop_on_a_small_stack_does_not_become_the_reader(redis_server: Server) -> None:
    used = run(
        "import asyncio, sys, threading, redlock\n"
        "async def main():\n"
        "    client = redlock.Redlock([sys.argv[1]])\n"
        "    for _ in range(200):\n"
        "        await (await client.lock('small').as_async().acquire()).release()\n"
        "asyncio.run(main())\n"
        "threading.stack_size(64 * 1024)\n"
        "thread = threading.Thread(target=lambda: asyncio.run(main()))\n"
        "thread.start(); thread.join(); print('done')",
        redis_server.url,
    )
    out, err = used.communicate(timeout=60)
    assert (used.returncode, out.strip()) == (0, "done"), err
