"""Support for tests of programs that lock: a client for one test, and failures on demand.

With pytest, the fixtures `redlock_client` and `async_redlock_client` of the plugin `redlock.pytest_plugin` provide a
client.
"""

import time
import uuid
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from redlock._async_testing import AsyncTests
from redlock._native import AsyncLock, Lease, Lock, Redlock, _fail_memory, _lock, _step_memory
from redlock._test_waits import Deadline, Names, Notified, block, jump, until_lost, until_waiting

__all__ = ["AsyncTestRedlock", "TestRedlock"]


class TestRedlock(Redlock):
    """A client with a private in-process node, for one test.

    Pass its `nodes` to other clients and to `configure` to share the node. The options are those of `Redlock`.

    Example:
        >>> with redlock.testing.TestRedlock() as client:
        ...     theirs = client.hold("job")
        ...     print(client.lock("job").try_acquire())
        None
    """

    # Tells pytest that this class is not a test.
    __test__ = False

    _node: str
    _other: Redlock
    #: Keeps the leases of `hold` alive.
    _held: list[Lease]

    def __new__(cls, **options: "Any") -> "Self":
        node = f"test-{uuid.uuid4().hex}"
        self: Any = super().__new__(cls, f"memory://{node}", **options)
        self._node = node
        self._other = Redlock(f"memory://{node}", **options)
        self._held = []
        return self  # type: ignore[no-any-return]

    def as_async(self) -> "AsyncTestRedlock":
        """Returns the asynchronous form of this client. Both share the node and the leases.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> theirs = await client.as_async().hold("job")
            >>> client.lock("job").inspect().held
            True
        """
        return AsyncTestRedlock._wrap(self)

    def hold(self, name: "Names", **options: "Any") -> Lease:
        """Makes another client hold the lock, until you call `release()` on its lease.

        Args:
            name: The name of the lock, or several, or a lock object, whose options apply too.
            **options: Options of `lock`.

        Returns:
            The lease of the other client.

        Raises:
            LockTimeout: The lock is held already.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> theirs = client.hold("job")
            >>> client.lock("job").try_acquire() is None
            True
            >>> theirs.release()
        """
        lease: Lease = self._lock_of_other(name, options).acquire()
        self._held.append(lease)
        return lease

    def lose(self, name: "Names") -> bool:
        """Makes the current holder lose the lock. Leases of this client are lost when this returns.

        Args:
            name: The name of the lock, or several, or a lock object. For a semaphore, every owner loses its permits.

        Returns:
            Whether any node had a key of the lock.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> lease = client.lock("job").acquire()
            >>> client.lose("job"), lease.held
            (True, False)
        """
        held = self._leases_of(name)
        was_held = self.force_release(name)
        block(until_lost(held))
        return was_held

    def advance(self, seconds: "float | timedelta") -> None:
        """Advances time from one deadline to the next. Leases are renewed on the way.

        Leases that are not renewed or reach `max_hold` are lost, and waits end when they are over. Callbacks have run
        when this returns, except those on a running event loop of this thread: this call blocks that loop, so acquires
        and callbacks there run afterwards. There, use `await client.as_async().advance()`.

        Args:
            seconds: Seconds or a timedelta.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> lease = client.lock("job", ttl=10, max_hold=60).acquire()
            >>> client.advance(50)
            >>> lease.held
            True
            >>> client.advance(timedelta(seconds=10))
            >>> lease.held, client.lock("job").try_acquire().held
            (False, True)
        """
        with Notified(self.leases()) as notified:
            _step_memory(self._node, seconds)
            block(notified.until_notified())

    def jump(self, seconds: "float | timedelta") -> None:
        """Advances time at once, as on a machine that was suspended. Waits that are under way end that much earlier.

        Leases with less time left are lost, renewed or not, and their locks become free. Their callbacks have run when
        this returns, except callbacks on a running event loop of this thread: this call blocks that loop for up to a
        second, and they run afterwards. There, use `await client.as_async().jump()`.

        Args:
            seconds: Seconds or a timedelta.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> lease = client.lock("job", ttl=10).acquire()
            >>> client.jump(9)
            >>> lease.held
            True
            >>> client.jump(timedelta(seconds=10))
            >>> lease.held, client.lock("job").try_acquire().held
            (False, True)
        """
        block(jump(self, self._node, seconds))

    def until_waiting(self, count: int = 1, timeout: "float | timedelta" = 10) -> None:
        """Waits until this many acquires of this client are under way.

        Args:
            count: The number of acquires.
            timeout: Maximum time to wait, in seconds or as a timedelta.

        Raises:
            TimeoutError: Fewer acquires are under way at the timeout.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> theirs = client.hold("job")
            >>> threading.Thread(target=client.lock("job", wait=5).acquire, daemon=True).start()
            >>> client.until_waiting()
            >>> client.stats().waiting
            1
            >>> theirs.release()
        """
        block(until_waiting(self, count, timeout))

    def until_held(self, name: "Names", timeout: "float | timedelta" = 10) -> None:
        """Waits until the lock is held, by any client.

        Args:
            name: The name of the lock, or several, or a lock object.
            timeout: Maximum time to wait, in seconds or as a timedelta.

        Raises:
            TimeoutError: The lock is not held at the timeout.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> theirs = client.hold("job")
            >>> client.until_held("job")
        """
        lock = self._own_lock(name)
        end = Deadline(timeout, lambda: f"{lock.key}: not held")
        while not lock.inspect().held:
            end.check()
            time.sleep(0.001)

    def _own_lock(self, name: "Names") -> Lock:
        if isinstance(name, AsyncLock):
            return name.as_sync()
        return name if isinstance(name, Lock) else self.lock(name)

    def fail(self) -> None:
        """Makes the node fail every command until `recover()`. Leases that are not renewed end with their TTL.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> client.fail()
            >>> client.lock("job", wait=0).acquire()
            Traceback (most recent call last):
            redlock.QuorumUnavailable: lock:job: ...
        """
        _fail_memory(self._node, True)

    def recover(self) -> None:
        """Makes the node reply again.

        Example:
            >>> client = redlock.testing.TestRedlock()
            >>> client.fail()
            >>> client.recover()
            >>> client.lock("job").try_acquire().held
            True
        """
        _fail_memory(self._node, False)

    def _lock_of_other(self, name: "Names", options: "dict[str, Any]") -> Lock:
        """Returns the lock of the other client."""
        own: dict[str, Any] = {}
        names: Any = name
        if isinstance(name, Lock | AsyncLock):
            lock = name.as_sync() if isinstance(name, AsyncLock) else name
            # The parts of a pickle: another lock with the same names and options.
            _, (_, names, own, _) = lock.__reduce__()
        return _lock(self._other, names, {**own, **options, "wait": 0}, ())

    def _leases_of(self, name: "Names") -> list[Lease]:
        lock = name if isinstance(name, Lock | AsyncLock) else self.lock(name)
        keys = {*lock.keys}
        return [lease for lease in self.leases() if keys & {*lease.keys}]

    def _detach_held(self) -> None:
        # If `__new__` failed, there is no list.
        for lease in getattr(self, "_held", ()):
            lease.detach()

    __del__ = _detach_held

    def _end_test(self) -> None:
        self.recover()
        # Otherwise the end of each test would log a loss.
        self._detach_held()
        self._other.close()

    def close(self) -> None:
        """Closes the client, as `Redlock.close` does. The node recovers, and the leases of `hold` end."""
        self._end_test()
        super().close()

    def shutdown(self, timeout: "float | timedelta" = 10) -> int:
        """Ends the client, as `Redlock.shutdown` does. The node recovers, and the leases of `hold` end."""
        self._end_test()
        return super().shutdown(timeout)

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self._end_test()
        super().__exit__(kind, error, trace)


class AsyncTestRedlock(AsyncTests):
    """`TestRedlock` with methods that are awaited. The options are those of `Redlock`.

    Example:
        >>> async with redlock.testing.AsyncTestRedlock() as client:
        ...     theirs = await client.hold("job")
        ...     print(await client.lock("job").try_acquire())
        None
    """

    # Tells pytest that this class is not a test.
    __test__ = False

    _test: TestRedlock

    def __new__(cls, **options: "Any") -> "Self":
        return cls._wrap(TestRedlock(**options))

    @classmethod
    def _wrap(cls, client: "Any") -> "Self":
        self: Any = super().__new__(cls, client)
        self._test = client
        return self  # type: ignore[no-any-return]

    def as_sync(self) -> TestRedlock:
        """Returns the blocking form of this client. Both share the node and the leases.

        Example:
            >>> client = redlock.testing.AsyncTestRedlock()
            >>> client.as_sync().fail()
        """
        return self._test
