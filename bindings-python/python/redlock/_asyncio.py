"""asyncio and trio: what awaits an acquire, and what an `async with` does at its begin, its end and a cancellation.

The classes of `redlock._native` get the methods of the classes here when the package is imported, so that calls go one
way: this calls native code, which waits, and never the other way round. asyncio and trio are imported only where they
are in use already.
"""

import sys

from redlock import _native
from redlock._body import Body
from redlock._native import _conclude
from redlock.errors import LockError

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from datetime import timedelta
    from types import FrameType, TracebackType
    from typing import Any, Never, ParamSpec, TypeVar, overload

    from redlock._native import Lease as _Lease
    from redlock._native import Lock as _Lock
    from redlock._native import _Acquire as _AcquireBase
    from redlock._trio import Body as TrioBody
    from redlock._trio import Loop

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _T = TypeVar("_T")
else:
    _AcquireBase = _Lease = _Lock = object


def _trio() -> "Loop | None":
    """The trio that runs here. Asked only where it is imported, of which nobody has to be sure that it is trio."""
    try:
        from redlock import _trio as trio
    except (AttributeError, ImportError):
        return None
    # A Ctrl-C comes before a lease is handed out, or after.
    trio.protect(_enter, _leave, _Acquire.__aenter__, _Acquire.__await__, Lease.__aenter__)
    return trio.running()


def _body() -> "Body | TrioBody":
    """That of the task which calls."""
    if "trio" in sys.modules and _trio() is not None:
        from redlock._trio import Body as TrioBody

        return TrioBody()
    return Body()


async def _enter(lock: "_Lock", frame: "FrameType") -> "_Lease":
    body = _body()
    lease = await lock._acquire(frame)
    _begin(body, lease)
    lock._enter(frame, lease, body)
    return lease


def _begin(body: "Body | TrioBody", lease: "_Lease") -> None:
    body.begin()
    lease._on_lost(body.lost)


async def _leave(
    lease: "_Lease", body: "Body | TrioBody | None", error: BaseException | None
) -> None:
    ours, left = (False, error) if body is None else body.finish(error)
    if isinstance(error, GeneratorExit):
        # The coroutine is being closed: there may be no loop to wait in.
        lease._let_go()
        return
    problem: LockError | None = lease._loss()
    try:
        # Sent before the first await; a cancellation here ends only the waiting for the confirmation.
        await lease.arelease()
    except LockError as failure:
        problem = failure
    if problem is not None:
        if ours:
            raise problem from error
        _conclude(problem, left)
    if left is not None and left is not error:
        # What a cancellation of ours was raised with.
        raise left


class _Acquire(_AcquireBase):  # type: ignore[misc]
    """What `lock.aacquire()` gives: to be awaited, entered by `async with`, or run as a task."""

    def __await__(self) -> "Generator[Any, None, _Lease]":
        while True:
            asked: Any = self.ask()
            try:
                yield from asked
            except BaseException:
                # Also what was granted before the task could see it.
                self.give_up()
                raise
            # Else its time was over before the loop came to us: ask again, within the same budget.
            if self.accept():
                lease: Any = self.lease()
                return lease  # type: ignore[no-any-return]

    async def __aenter__(self) -> "_Lease":
        if self.once:
            self.dismiss()
            raise TypeError(
                "atry_acquire() may give None: 'async with' needs lock.aacquire(wait=0), which raises"
            )
        body = _body()
        lease = await self
        lease._enter(body)
        _begin(body, lease)
        self.hold(lease)
        return lease

    def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> "Coroutine[Any, Any, None]":
        lease = self.hold(None)
        assert lease is not None
        return lease.__aexit__(kind, error, trace)

    # A task drives a coroutine by these.
    def send(self, value: "Any") -> "Any":
        return _steps(self).send(value)

    def throw(self, *error: "Any") -> "Any":
        return _steps(self).throw(*error)

    def close(self) -> None:
        if self.steps is None:
            self.dismiss()
        else:
            self.steps.close()


def _steps(acquire: "_AcquireBase") -> "Any":
    if acquire.steps is None:
        acquire.set_steps(acquire.__await__())
    return acquire.steps


class Lock(_Lock):  # type: ignore[misc]
    """What `redlock.Lock` has from here."""

    # No coroutine functions where the caller's frame counts: it is the one before ours.
    def aacquire(
        self,
        *args: "Never",
        wait: "float | timedelta | None" = ...,  # type: ignore[assignment]
        **kwargs: "Never",
    ) -> "_AcquireBase":
        """`acquire` for asyncio, to be awaited or entered: begins then. A cancellation leaves no key behind.

        >>> async with lock.aacquire(wait=5) as lease:
        ...     lease.held
        True
        >>> lease = await lock.aacquire(wait=5)
        >>> await lease.arelease()
        """
        return self._acquire(sys._getframe(1), wait, *args, **kwargs)

    def atry_acquire(self) -> "Coroutine[Any, Any, _Lease | None]":
        """`try_acquire` for asyncio: begins when awaited.

        >>> lease = await lock.atry_acquire()
        >>> await lease.arelease()
        """
        return self._try_acquire(sys._getframe(1))

    def __aenter__(self) -> "Coroutine[Any, Any, _Lease]":
        return _enter(self, sys._getframe(1))

    def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> "Coroutine[Any, Any, None]":
        return _leave(*self._leave(sys._getframe(1)), error)

    if TYPE_CHECKING:

        @overload
        def __call__(self, function: "staticmethod[_P, _R]") -> "staticmethod[_P, _R]": ...
        @overload
        def __call__(self, function: "classmethod[_T, _P, _R]") -> "classmethod[_T, _P, _R]": ...
        @overload
        def __call__(self, function: "Callable[_P, _R]") -> "Callable[_P, _R]": ...

    def __call__(self, function: "Any") -> "Any":
        """A function, or coroutine function, that holds the lock during each call.

        Braces in the lock's name stand for arguments of the call. If a function that is no `async def` returns an
        awaitable, the lock is held until that has ended. Raises TypeError for a class, a property and a generator,
        whose caller decides when it ends; InvalidOption for a name with other braces.
        """
        from redlock._decorator import decorate

        return decorate(self, function)


class Lease(_Lease):  # type: ignore[misc]
    """What `redlock.Lease` has from here."""

    async def __aenter__(self) -> "_Lease":
        body = _body()
        self._enter(body)
        _begin(body, self)
        return self

    def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> "Coroutine[Any, Any, None]":
        return _leave(self, self._leave(), error)


for _ours, _theirs in (
    (_Acquire, _native._Acquire),
    (Lock, _native.Lock),
    (Lease, _native.Lease),
):
    for _name, _method in vars(_ours).items():
        if callable(_method):
            setattr(_theirs, _name, _method)

_native._set_trio(_trio)
_native._make_classes()
