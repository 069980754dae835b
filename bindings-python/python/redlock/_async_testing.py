"""The awaited methods of the asynchronous test client in `redlock.testing`."""

from datetime import timedelta
from typing import Any

from redlock._asyncio import _acquire
from redlock._decorator import call_site
from redlock._native import AsyncLease, AsyncRedlock, _Steps
from redlock._test_waits import (
    Deadline,
    Names,
    Notified,
    jump,
    turn,
    turns,
    until_lost,
    until_waiting,
)


class AsyncTests(AsyncRedlock):
    """The methods that `AsyncTestRedlock` awaits."""

    _test: Any

    async def hold(self, name: "Names", **options: "Any") -> AsyncLease:
        """Makes another client hold the lock, until you call `release()` on its lease.

        Args:
            name: The name of the lock, or several, or a lock object, whose options apply too.
            **options: Options of `lock`.

        Returns:
            The lease of the other client.

        Raises:
            LockTimeout: The lock is held already.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> theirs = await client.hold("job")
            >>> await theirs.release()
        """
        lock = self._test._lock_of_other(name, options)
        lease: AsyncLease = await _acquire(lock._start_acquire, call_site(1))
        self._test._held.append(lease.as_sync())
        return lease

    async def lose(self, name: "Names") -> bool:
        """Makes the current holder lose the lock. Callbacks on this event loop have run when this returns.

        Args:
            name: The name of the lock, or several, or a lock object. For a semaphore, every owner loses its permits.

        Returns:
            Whether any node had a key of the lock.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> lease = await client.lock("job").acquire()
            >>> await client.lose("job"), lease.held
            (True, False)
        """
        held = self._test._leases_of(name)
        with Notified(held) as notified:
            was_held = await self.force_release(name)
            await turns(until_lost(held))
            await turns(notified.until_notified())
        return was_held

    async def advance(self, seconds: "float | timedelta") -> None:
        """Advances time from one deadline to the next. Leases are renewed on the way.

        Leases that are not renewed or reach `max_hold` are lost, and waits end when they are over. Callbacks on this
        event loop have run when this returns.

        Args:
            seconds: Seconds or a timedelta.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> lease = await client.lock("job", ttl=10, max_hold=60).acquire()
            >>> await client.advance(50)
            >>> lease.held
            True
            >>> await client.advance(10)
            >>> lease.held
            False
        """
        with Notified(self._test.leases()) as notified:
            steps = _Steps()
            try:
                await steps.start(self._test._node, seconds)
            finally:
                steps.stop()
            await turns(notified.until_notified())

    async def jump(self, seconds: "float | timedelta") -> None:
        """Advances time at once, as on a machine that was suspended. Waits that are under way end that much earlier.

        Leases with less time left are lost, renewed or not, and their locks become free. Callbacks on this event loop
        have run when this returns.

        Args:
            seconds: Seconds or a timedelta.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> lease = await client.lock("job", ttl=10).acquire()
            >>> await client.jump(10)
            >>> lease.held
            False
        """
        await turns(jump(self._test, self._test._node, seconds))

    async def until_waiting(self, count: int = 1, timeout: "float | timedelta" = 10) -> None:
        """Waits until this many acquires of this client are under way.

        Args:
            count: The number of acquires.
            timeout: Maximum time to wait, in seconds or as a timedelta.

        Raises:
            TimeoutError: Fewer acquires are under way at the timeout.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> theirs = await client.hold("job")
            >>> waits = asyncio.create_task(client.lock("job").acquire())
            >>> await client.until_waiting()
            >>> await theirs.release()
            >>> (await waits).held
            True
        """
        await turns(until_waiting(self._test, count, timeout))

    async def until_held(self, name: "Names", timeout: "float | timedelta" = 10) -> None:
        """Waits until the lock is held, by any client.

        Args:
            name: The name of the lock, or several, or a lock object.
            timeout: Maximum time to wait, in seconds or as a timedelta.

        Raises:
            TimeoutError: The lock is not held at the timeout.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> theirs = await client.hold("job")
            >>> await client.until_held("job")
        """
        lock = self._test._own_lock(name).as_async()
        end = Deadline(timeout, lambda: f"{lock.key}: not held")
        while not (await lock.inspect()).held:
            end.check()
            await turn()

    def fail(self) -> None:
        """Makes the node fail every command until `recover()`. Leases that are not renewed end with their TTL.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> client.fail()
            >>> await client.lock("job", wait=0).acquire()
            Traceback (most recent call last):
            redlock.QuorumUnavailable: lock:job: ...
        """
        self._test.fail()

    def recover(self) -> None:
        """Makes the node reply again.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> client.fail()
            >>> client.recover()
            >>> (await client.lock("job").acquire()).held
            True
        """
        self._test.recover()

    def close(self) -> None:
        """Closes the client, as `AsyncRedlock.close` does. The node recovers, and the leases of `hold` end."""
        self._test.close()

    async def shutdown(self, timeout: "float | timedelta" = 10) -> int:
        """Ends the client, as `AsyncRedlock.shutdown` does. The node recovers, and the leases of `hold` end."""
        self._test._end_test()
        return await super().shutdown(timeout)
