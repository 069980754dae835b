"""Read by mypy alone: the package's types are seen, and refuse what is wrong. An unused ignore is an error too."""

import asyncio
from typing import assert_type

import redlock

client = redlock.Redlock("memory://", key_prefix="jobs:")
lock = client.lock("job", ttl=5, wait=None)
client.lock("job", ttl="5")  # type: ignore[arg-type]
client.lock("job", timeout=5)  # type: ignore[arg-type]


@lock
def report(day: int) -> str:
    return str(day)


assert_type(report(1), str)
with lock as lease:
    assert_type(lease, redlock.Lease)
assert_type(lock.try_acquire(), redlock.Lease | None)


async def main() -> None:
    async with lock as lease:
        assert_type(lease.fencing_token, int)
    assert_type(await lock.aacquire(wait=1.5), redlock.Lease)
    async with lock.aacquire(wait=1.5) as lease:
        assert_type(lease, redlock.Lease)
    assert_type(await asyncio.create_task(lock.aacquire()), redlock.Lease)
    assert_type(await lock.atry_acquire(), redlock.Lease | None)

    async def told(error: redlock.LockLost) -> None:
        assert_type(error.reason, str | None)

    forget = lease.on_lost(told)
    forget()


try:
    lease.release()
except redlock.QuorumUnavailable as error:
    assert_type(error.nodes, tuple[redlock.NodeReport, ...])
