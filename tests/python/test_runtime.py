"""The hazards between Rust and Python: GIL, signals, forks, loops, collection, logs."""

import asyncio
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from .servers import Server


def test_waiting_releases_the_gil(client: redlock.Redlock, name: str) -> None:
    lease = client.lock(name).acquire()
    steps = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal steps
        while not stop.is_set():
            steps += 1

    thread = threading.Thread(target=count)
    thread.start()

    def wait() -> None:
        with pytest.raises(redlock.LockTimeout):
            client.lock(name).acquire(wait=0.5)

    other = threading.Thread(target=wait)
    before = steps
    other.start()
    other.join(10)
    stop.set()
    thread.join(10)
    assert steps - before > 10_000
    lease.release()


def run(code: str, *words: str, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


INTERRUPTED = """
import sys, time, redlock
client = redlock.Redlock(sys.argv[1])
print("ready", flush=True)
try:
    with client.lock(sys.argv[2], ttl=20): print("entered")
except KeyboardInterrupt:
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
time.sleep(0.2)
"""


def test_ctrl_c_interrupts_a_wait_and_leaves_no_key(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    lease = redis_client.lock(name, ttl=20).acquire()
    process = run(INTERRUPTED, redis_server.url, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    took = (int(out) - sent) / 1e9
    assert took < 0.4, (took, err)  # 0.2 s and what a busy machine adds
    lease.release()
    time.sleep(0.1)
    assert redis_server.client.get(lease.key) is None


STORM = """
import sys, redlock
client = redlock.Redlock(sys.argv[1])
lock = client.lock(sys.argv[2], ttl=20)
lock.acquire().release()
print("ready", flush=True)
interrupts = 0
while interrupts < 100:
    try:
        while True:
            with lock: pass
    except KeyboardInterrupt:
        interrupts += 1
        print("next", flush=True)
print("done", flush=True)
"""


def test_ctrl_c_at_any_moment_leaves_no_key(redis_server: Server, name: str) -> None:
    process = run(STORM, redis_server.url, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for number in range(100):
        time.sleep(0.001 + (number % 10) * 0.00013)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "next\n"
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert redis_server.client.get(f"lock:{name}") is None
    assert "collected" not in err


CANCELLED = """
import asyncio, sys, redlock
client = redlock.Redlock(sys.argv[1])
async def main():
    lock = client.lock(sys.argv[2], ttl=20)
    await (await lock.aacquire()).arelease()
    task = asyncio.create_task(lock.aacquire())
    await asyncio.sleep(float(sys.argv[3]))
    if not task.cancel(): await task.result().arelease()
asyncio.run(main())
"""


def test_an_exit_right_after_a_cancellation_leaves_no_key(redis_server: Server, name: str) -> None:
    for number in range(20):
        _, err = run(CANCELLED, redis_server.url, name, str(number * 2e-5)).communicate(timeout=20)
        assert err == ""
        assert redis_server.client.get(f"lock:{name}") is None


FORKED = """
import json, os, sys, redlock
client = redlock.Redlock(sys.argv[1])
lease = client.lock(sys.argv[2], ttl=20).acquire()
read, write = os.pipe()
if os.fork() == 0:
    answer = {"held": lease.held, "leases": len(client.leases())}
    try: lease.release()
    except redlock.LockLost as error: answer["release"] = error.reason
    answer["try"] = client.lock(sys.argv[2]).try_acquire() is not None
    with client.lock(sys.argv[2] + "-child", ttl=20) as other: answer["own"] = other.held
    import asyncio
    async def main():
        async with client.lock(sys.argv[2] + "-child", ttl=20) as other: return other.held
    answer["async"] = asyncio.run(main())
    os.write(write, json.dumps(answer).encode())
    os._exit(0)
os.close(write)
child = json.loads(os.read(read, 4096) or b'{}')
_, status = os.wait()
print(json.dumps({"child": child, "status": status, "held": lease.held}))
lease.release()
"""


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_forked_child_owns_nothing_and_can_lock(
    redis_server: Server, name: str, kind: str
) -> None:
    url = redis_server.url if kind == "redis" else "memory://"
    out, err = run(
        FORKED.replace(
            "import json", "import warnings; warnings.simplefilter('ignore'); import json", 1
        ),
        url,
        name,
    ).communicate(timeout=30)
    answer = json.loads(out or err)
    assert answer["held"] is True
    assert answer["status"] == 0
    child = answer["child"]
    assert child["held"] is False
    assert child["leases"] == 0
    assert child["release"] == "forked"
    assert child["own"] is True
    assert child["async"] is True
    if kind == "redis":
        assert child["try"] is False


FORKED_LOOP = """
import asyncio, os, sys, threading, redlock
client = redlock.Redlock(sys.argv[1])
async def main():
    async with client.lock(sys.argv[2], ttl=20) as lease: return lease.held
def hammer():
    lock = client.lock(sys.argv[2] + "-hammer")
    while not stop.is_set():
        with lock: pass
stop = threading.Event()
thread = threading.Thread(target=hammer)
thread.start()
asyncio.run(main())
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if asyncio.run(main()) else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
thread.join()
print("done")
"""


def test_forks_while_another_thread_locks(redis_server: Server, name: str) -> None:
    """A mutex of ours that is held at the fork would hang the child."""
    code = "import warnings; warnings.simplefilter('ignore')\n" + FORKED_LOOP
    out, err = run(code, redis_server.url, name).communicate(timeout=60)
    assert out == "done\n", err


def test_importing_is_cheap_and_imports_no_asyncio() -> None:
    code = (
        "import sys, time; b = time.perf_counter(); import redlock; e = time.perf_counter();"
        "print(e - b, *(m for m in ('asyncio', 'logging', 'threading', 'inspect') if m in sys.modules))"
    )
    runs = [run(code).communicate(timeout=20)[0].split() for _ in range(5)]
    assert all(len(words) == 1 for words in runs), runs
    assert min(float(words[0]) for words in runs) < 0.010


def test_a_collected_lease_is_not_released(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    with pytest.warns(ResourceWarning, match=rf"lock:{name}.*test_runtime\.py:\d+") as warned:
        redis_client.lock(name, ttl=0.5).acquire()
        gc.collect()
    assert len(warned) == 1
    assert redis_server.client.get(f"lock:{name}") is not None
    assert redis_client.lock(name).try_acquire() is None
    time.sleep(0.6)  # renewal has ended
    assert redis_server.client.get(f"lock:{name}") is None


def test_a_collected_lease_with_a_callback_is_collected(client: redlock.Redlock, name: str) -> None:
    """The callback may refer to the lease without keeping it for ever."""

    def forget() -> None:
        lease = client.lock(name, ttl=0.5).acquire()
        lease.on_lost(lambda _: print(lease))

    forget()
    with pytest.warns(ResourceWarning, match=f"lock:{name}"):
        gc.collect()


def test_on_lost_on_the_dispatcher(client: redlock.Redlock, name: str) -> None:
    told: list[Any] = []
    event = threading.Event()

    def callback(error: redlock.LockLost) -> None:
        told.append((error.reason, threading.current_thread().name))
        event.set()

    lease = client.lock(name).acquire()
    lease.on_lost(callback)
    client.force_release(name)
    assert event.wait(5)
    event.clear()
    lease.on_lost(callback)  # lost already: soon
    assert event.wait(5)
    assert told == [("missing", "redlock-dispatch")] * 2
    other = client.lock(name).acquire()
    other.on_lost(callback)
    other.release()
    time.sleep(0.1)
    assert len(told) == 2


def test_on_lost_on_the_loop(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        told = asyncio.get_running_loop().create_future()
        lease = await client.lock(name).aacquire()
        lease.on_lost(lambda error: told.set_result((error.reason, threading.current_thread())))
        await client.aforce_release(name)
        reason, thread = await asyncio.wait_for(told, 5)
        assert reason == "missing"
        assert thread is threading.current_thread()

    asyncio.run(main())


def test_one_wake_up_per_batch(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        await (await client.lock(name).aacquire()).arelease()
        wakes = 0
        (mailbox,) = [
            key.data[0]._callback
            for key in loop._selector.get_map().values()
            if key.data[0] and type(key.data[0]._callback).__name__ == "Mailbox"
        ]

        def counted() -> None:
            nonlocal wakes
            wakes += 1
            mailbox()

        (fd,) = [
            key.fd
            for key in loop._selector.get_map().values()
            if key.data[0] and key.data[0]._callback is mailbox
        ]
        loop.add_reader(fd, counted)
        locks = [client.lock(f"{name}-{number}") for number in range(200)]
        acquiring = [asyncio.create_task(lock.aacquire()) for lock in locks]
        await asyncio.sleep(0)
        time.sleep(0.3)  # all are granted while the loop is blocked
        leases = await asyncio.gather(*acquiring)
        assert wakes <= 3
        await asyncio.gather(*(lease.arelease() for lease in leases))

    asyncio.run(main())


class NoReaders(asyncio.SelectorEventLoop):
    """As loops that cannot watch file descriptors."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        if type(callback).__name__ == "Mailbox":
            raise NotImplementedError
        return super().add_reader(fd, callback, *args)


def new_loop(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return NoReaders if kind == "no readers" else asyncio.SelectorEventLoop


@pytest.mark.parametrize("kind", ["selector", "no readers", "uvloop"])
def test_every_kind_of_loop(client: redlock.Redlock, name: str, kind: str) -> None:
    async def main() -> None:
        async def once(number: int) -> None:
            async with client.lock(f"{name}-{number % 5}", wait=10) as lease:
                assert lease.held

        await asyncio.gather(*(once(number) for number in range(50)))
        with pytest.raises(redlock.LockLost):
            async with client.lock(name):
                await client.aforce_release(name)
                await asyncio.sleep(10)

    with asyncio.Runner(loop_factory=new_loop(kind)) as runner:
        runner.run(main())


@pytest.mark.parametrize("kind", ["selector", "no readers", "uvloop"])
def test_dead_loops_are_not_kept(client: redlock.Redlock, name: str, kind: str) -> None:
    async def main() -> None:
        async with client.lock(name):
            pass

    def use() -> "weakref.ref[Any]":
        loop = new_loop(kind)()
        loop.run_until_complete(main())
        loop.close()
        return weakref.ref(loop)

    before = len(os.listdir("/proc/self/fd"))
    loops = [use() for _ in range(10)]
    end = time.monotonic() + 5
    while any(loop() for loop in loops) and time.monotonic() < end:
        gc.collect()  # the dispatcher may be about to wake one
    assert [loop() for loop in loops] == [None] * 10
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # uvloop's own come with the first


def test_loops_in_many_threads(client: redlock.Redlock, name: str) -> None:
    inside = entered = 0

    async def once() -> None:
        nonlocal inside, entered
        async with client.lock(name, wait=20):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0.001)
            inside -= 1
            entered += 1

    async def main() -> None:
        await asyncio.gather(*(once() for _ in range(5)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert entered == 20


def test_logs_reach_logging(
    client: redlock.Redlock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redlock")
    lease = client.lock(name).acquire()
    client.force_release(name)
    end = time.monotonic() + 5
    while lease.held and time.monotonic() < end:
        time.sleep(0.001)
    with pytest.raises(redlock.LockLost):
        lease.release()
    found: list[logging.LogRecord] = []
    while time.monotonic() < end and not found:
        found = [record for record in caplog.records if f"lock:{name}" in record.getMessage()]
    (record,) = found
    assert record.name == "redlock"
    assert record.levelno == logging.WARNING
    assert "missing" in record.getMessage()


def test_the_interpreter_ends_with_leases_and_waiters(redis_server: Server, name: str) -> None:
    code = """
import asyncio, sys, threading, warnings, redlock
warnings.simplefilter("ignore")
client = redlock.Redlock(sys.argv[1])
lease = client.lock(sys.argv[2], ttl=1).acquire()
lease.on_lost(print)
threading.Thread(target=client.lock(sys.argv[2]).acquire, daemon=True).start()
asyncio.run(client.lock(sys.argv[2] + "-2", ttl=1).aacquire())
print("done")
"""
    process = run(code, redis_server.url, name)
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("done\n", 0), err
