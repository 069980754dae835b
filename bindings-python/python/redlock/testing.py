"""Help for tests of programs that lock: a client of a test's own, and what can go wrong, at will.

With pytest the fixture `redlock_client` gives one, and nothing of redlock is imported before that.
"""

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from redlock._native import Lease, Redlock, _advance_memory, _fail_memory, _now

_Names = str | list[str] | tuple[str, ...]

#: Seconds that `lose` and `advance` wait at most until holders have been told, on a clock that freezegun does not
#: replace.
TOLD = 1.0


class _Told:
    """Which of these leases are lost and have not been told so yet, for `TOLD` seconds."""

    def __init__(self, held: list[Lease]) -> None:
        self._held = held
        self._told: list[Lease] = []
        self._forget = [lease.on_lost(self._hear(lease)) for lease in held]
        self._end = _now() + TOLD

    def _hear(self, lease: Lease) -> "Callable[[object], None]":
        return lambda _: self._told.append(lease)

    def missing(self) -> bool:
        waited_for = [lease for lease in self._held if not lease.held and lease not in self._told]
        if waited_for and _now() < self._end:
            return True
        for forget in self._forget:
            forget()
        return False


class TestRedlock(Redlock):
    """A client over a node in this process that nobody else has, for one test.

    Its `nodes` may be given to other clients and to `configure`, so that they share it. The options are those of
    `Redlock`.

        >>> with redlock.testing.TestRedlock() as client:
        ...     theirs = client.hold("job")
        ...     print(client.lock("job").try_acquire())
        None
    """

    # It is no test, whatever pytest thinks of its name.
    __test__ = False

    _node: str
    _other: Redlock
    #: Nobody has to keep what others hold.
    _held: list[Lease]

    def __new__(cls, **options: "Any") -> "Self":
        node = f"test-{uuid.uuid4().hex}"
        self: Any = super().__new__(cls, f"memory://{node}", **options)
        self._node = node
        self._other = Redlock(f"memory://{node}", **options)
        self._held = []
        return self  # type: ignore[no-any-return]

    def hold(self, name: "_Names", **options: "Any") -> Lease:
        """Somebody else holds the lock from now on: another client's lease, which `release()` lets go.

        The options are those of `lock`. Raises LockTimeout if the lock is held already.

            >>> client = redlock.testing.TestRedlock()
            >>> theirs = client.hold("job")
            >>> client.lock("job").try_acquire() is None
            True
            >>> theirs.release()
        """
        lease: Lease = self._other.lock(name, **{**options, "wait": 0}).acquire()
        self._held.append(lease)
        return lease

    async def ahold(self, name: "_Names", **options: "Any") -> Lease:
        """`hold` for asyncio.

        >>> client = redlock.testing.TestRedlock()
        >>> theirs = await client.ahold("job")
        >>> await theirs.arelease()
        """
        lease: Lease = await self._other.lock(name, **{**options, "wait": 0}).aacquire()
        self._held.append(lease)
        return lease

    def lose(self, name: "_Names") -> bool:
        """Whoever holds the lock loses it now; true if somebody did. Leases of this client know it when this returns.

        >>> client = redlock.testing.TestRedlock()
        >>> lease = client.lock("job").acquire()
        >>> client.lose("job"), lease.held
        (True, False)
        """
        held = self._leases_of(name)
        there = self.force_release(name)
        end = _now() + TOLD
        while any(lease.held for lease in held) and _now() < end:
            time.sleep(0.001)
        return there

    async def alose(self, name: "_Names") -> bool:
        """`lose` for asyncio: what `on_lost` registered on the loop has been called, too.

        >>> client = redlock.testing.TestRedlock()
        >>> lease = await client.lock("job").aacquire()
        >>> await client.alose("job"), lease.held
        (True, False)
        """
        held = self._leases_of(name)
        told = _Told(held)
        there = await self.aforce_release(name)
        end = _now() + TOLD
        # Whatever loop runs here gets its turn.
        while any(lease.held for lease in held) and _now() < end:
            await self._other.lock(name).ainspect()
        while told.missing():
            await self._other.lock(name).ainspect()
        return there

    def advance(self, seconds: "float | timedelta") -> None:
        """So much time passes at once, as on a machine that was suspended; losses are told.

        Whoever has less left loses the lock, renewed or not, and the next one can have it. Waits that are under way end
        so much earlier.

            >>> client = redlock.testing.TestRedlock()
            >>> lease = client.lock("job", ttl=10).acquire()
            >>> client.advance(9)
            >>> lease.held
            True
            >>> client.advance(timedelta(seconds=10))
            >>> lease.held, client.lock("job").try_acquire().held
            (False, True)
        """
        told = _Told(self.leases())
        _advance_memory(self._node, seconds)
        while told.missing():
            time.sleep(0.001)

    async def aadvance(self, seconds: "float | timedelta") -> None:
        """`advance` for asyncio: what `on_lost` registered on the loop has been called, too.

        >>> client = redlock.testing.TestRedlock()
        >>> lease = await client.lock("job", ttl=10).aacquire()
        >>> await client.aadvance(10)
        >>> lease.held
        False
        """
        told = _Told(self.leases())
        _advance_memory(self._node, seconds)
        while told.missing():
            await self._other.lock("turn").ainspect()

    def fail(self) -> None:
        """No node answers from now on, until `recover()`: acquires raise QuorumUnavailable once their `wait` is over.

        Leases that are not renewed end with their ttl.

            >>> client = redlock.testing.TestRedlock()
            >>> client.fail()
            >>> client.lock("job", wait=0).acquire()
            Traceback (most recent call last):
            redlock.QuorumUnavailable: lock:job: ...
        """
        _fail_memory(self._node, True)

    def recover(self) -> None:
        """The node answers again.

        >>> client = redlock.testing.TestRedlock()
        >>> client.fail()
        >>> client.recover()
        >>> client.lock("job").try_acquire().held
        True
        """
        _fail_memory(self._node, False)

    def _leases_of(self, name: "_Names") -> list[Lease]:
        keys = {*self.lock(name).keys}
        return [lease for lease in self.leases() if keys & {*lease.keys}]

    def _end(self) -> None:
        self.recover()
        self._other.close()

    def close(self) -> None:
        """As of `Redlock`; the node recovers, and what `hold` gave ends."""
        self._end()
        super().close()

    def shutdown(self, timeout: "float | timedelta" = 10) -> int:
        """As of `Redlock`; the node recovers, and what `hold` gave ends."""
        self._end()
        return super().shutdown(timeout)

    async def ashutdown(self, timeout: "float | timedelta" = 10) -> int:
        """As of `Redlock`; the node recovers, and what `hold` gave ends."""
        self._end()
        return await super().ashutdown(timeout)

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        self._end()
        super().__exit__(kind, error, trace)
