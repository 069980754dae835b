"""Checked by mypy only: the package's types are found, and refuse wrong code. An unused ignore is an error too."""

import asyncio
import json
from typing import Any, Unpack, assert_type

import redlock
import redlock.types

client = redlock.Redlock("memory://", key_prefix="jobs:")
lock = client.lock("job", ttl=5, wait=None)
client.lock("job", ttl="5")  # type: ignore[call-overload]
client.lock("job", timeout=5)  # type: ignore[call-overload]


class Wrapper(redlock.Redlock):
    def attach(self, name: Any, token: str, **options: Any) -> redlock.Lease:
        redlock.configure(self.nodes, replace=True, **options)
        return super().attach(name, token, **options)

    def acquire(self, name: str, waits: dict[str, float], **options: Any) -> redlock.Lease:
        return redlock.Redlock(self.nodes, **options).lock(name).acquire(**waits)


redlock.lock("job", timeout=5)  # type: ignore[call-overload]
redlock.Redlock("memory://", "memory://b")  # type: ignore[call-arg]
lock.acquire(3)  # type: ignore[call-arg]
lock.acquire(waits=3)  # type: ignore[call-arg]
redlock.configure()  # type: ignore[call-arg]
redlock.AsyncRedlock()  # type: ignore[call-arg]
redlock.AsyncRedlock("memory://", "memory://b")  # type: ignore[call-arg]
awaited = redlock.AsyncRedlock("memory://", key_prefix="jobs:")
assert_type(awaited.as_sync(), redlock.Redlock)
assert_type(client.as_async(), redlock.AsyncRedlock)
awaited.lock("job", timeout=5)  # type: ignore[call-overload]


@awaited.lock("report:{day}")
async def areport(day: int) -> str:
    return str(day)


@awaited.lock("report:{day}")  # type: ignore[arg-type]
def blocks(day: int) -> str:
    return str(day)


@awaited.lock("report:{day}", wait=0, default=None)
async def areport_or_none(day: int) -> str:
    return str(day)


skips: redlock.types.LockDecorator[None] = client.lock("report", wait=0, default=None)
askips: redlock.types.AsyncLockDecorator[None] = awaited.lock("report", wait=0, default=None)


@lock
def report(day: int) -> str:
    return str(day)


assert_type(report(1), str)
report("1")  # type: ignore[arg-type]


@client.lock("report:{day}", wait=0, default=None)
def skipped(day: int) -> str:
    return str(day)


assert_type(skipped(day=1), str | None)
skipped()  # type: ignore[call-arg]


@redlock.lock("report:{day}", wait=0, default=0)
async def askipped(day: int) -> str:
    return str(day)


lock.release()  # type: ignore[attr-defined]


def sees_what_follows() -> None:
    if lock:
        pass
    lock.release()  # type: ignore[attr-defined]


with client.lock("report", wait=0, default=None):  # type: ignore[attr-defined]
    pass


class Reports:
    @lock
    def one(self, day: int) -> str:
        return str(day)

    @lock
    @staticmethod
    def static(day: int) -> str:
        return str(day)

    @lock
    @classmethod
    def of_class(cls, day: int) -> str:
        return str(day)


assert_type(Reports().one(1), str)
assert_type(Reports.static(1), str)
assert_type(Reports.of_class(1), str)
Reports().one("1")  # type: ignore[arg-type]
with lock as lease:
    assert_type(lease, redlock.Lease)
assert_type(lock.try_acquire(), redlock.Lease | None)


async def main() -> None:
    assert_type(await askipped(1), str | int)
    assert_type(await areport(1), str)
    assert_type(await areport_or_none(1), str | None)
    async with lock as alease:
        assert_type(alease, redlock.AsyncLease)
    alock = awaited.lock("job")
    assert_type(alock, redlock.AsyncLock)
    assert_type(alock.as_sync(), redlock.Lock)
    async with alock as alease:
        assert_type(alease.fencing_token, int)
    with alock:  # type: ignore[attr-defined]
        pass
    async with client:  # type: ignore[attr-defined]
        pass
    assert_type(await alock.acquire(wait=1.5), redlock.AsyncLease)
    async with await alock.acquire(timeout=1.5) as alease:
        assert_type(alease.as_sync(), redlock.Lease)
    with alease:  # type: ignore[attr-defined]
        pass
    assert_type(await asyncio.create_task(alock.acquire()), redlock.AsyncLease)
    assert_type(await lock.as_async().try_acquire(), redlock.AsyncLease | None)
    assert_type(await awaited.attach("job", "token"), redlock.AsyncLease)
    await alease.extend(ttl=2)
    async with awaited as same:
        assert_type(same, redlock.AsyncRedlock)
        assert_type(await same.shutdown(), int)

    async def told(error: redlock.LockLost) -> None:
        assert_type(error.reason, redlock.types.LossReason | None)

    forget = alease.on_lost(told)
    forget()


try:
    lease.release()
except redlock.QuorumUnavailable as error:
    assert_type(error.nodes, tuple[redlock.NodeReport, ...])
    assert_type(error.nodes[0].state, redlock.types.NodeState)
    if error.nodes[0].state == "failed":  # type: ignore[comparison-overlap]
        pass


def is_misspelled(error: redlock.LockError) -> bool:
    assert_type(error.code, redlock.types.ErrorCode)
    return error.code == "time_out"  # type: ignore[comparison-overlap]


assert_type(client.lock("job").inspect().nodes[0].state, redlock.types.NodeState)
assert_type(client.stats().lost, dict[redlock.types.LossReason, int])
client.stats().lost["exipred"]  # type: ignore[index]
redlock.Redlock.from_client(object(), address_map={"a:1": "b:1"})
redlock.AsyncRedlock.from_client(object(), address_map=["a:1"])  # type: ignore[arg-type]
json.dumps(dict(client.stats()))


def passes_on(name: str, **options: Unpack[redlock.types.LockOptions]) -> redlock.Lease:
    awaited.lock(name, **options)
    redlock.lock(name, **options)
    return client.lock(name, **options).acquire()


passes_on("job", ttl=5, wait=None, fencing=True)
passes_on("job", ttl="5")  # type: ignore[arg-type]
passes_on("job", tll=5)  # type: ignore[call-arg]
stored: redlock.types.LockOptions = {"ttl": 5, "tll": 5}  # type: ignore[typeddict-unknown-key]
