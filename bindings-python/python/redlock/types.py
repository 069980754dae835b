"""Types for annotations: the words of errors and results, the options of locks, and results without a class.

Import this module only where you need it. It imports `typing`, which takes longer than all the rest of redlock.
"""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, overload

__all__ = [
    "AsyncLockDecorator",
    "ErrorCode",
    "LockDecorator",
    "LockOptions",
    "LossReason",
    "NodeState",
    "ReaderOptions",
    "SemaphoreOptions",
]

#: `code` of an error.
ErrorCode: TypeAlias = Literal[
    "timeout", "lost", "released", "unavailable", "invalid", "unsupported", "closed", "internal"
]

#: Why a lease was lost: `reason` of an error, and the keys of `Stats.lost`.
LossReason: TypeAlias = Literal[
    "expired", "taken", "missing", "quorum", "max_hold", "forked", "closed", "revoked", "internal"
]

#: `state` of a NodeReport or a NodeInspection.
NodeState: TypeAlias = Literal["granted", "held", "kept", "missing", "free", "fault", "pending"]


class LockOptions(TypedDict, total=False):
    """The options of `lock`, for code that passes them on. Times are seconds or timedelta.

    Example:
        >>> from typing import Unpack
        >>> def held(name: str, **options: Unpack[redlock.types.LockOptions]) -> bool:
        ...     with client.lock(name, **options) as lease:
        ...         return lease.held
        >>> held("job", ttl=5, wait=1)
        True
    """

    ttl: float | timedelta | None
    wait: float | timedelta | None
    renew: bool | None
    max_hold: float | timedelta | None
    min_hold: float | timedelta | None
    node_timeout: float | timedelta | None
    fencing: bool | None
    label: str | bool | None


class SemaphoreOptions(TypedDict, total=False):
    """The options of `semaphore` besides `limit`, for code that passes them on. Times are seconds or timedelta.

    Example:
        >>> from typing import Unpack
        >>> def permit(name: str, **options: Unpack[redlock.types.SemaphoreOptions]) -> list[str]:
        ...     with client.semaphore(name, 2, **options) as lease:
        ...         return lease.keys
        >>> len(permit("job", ttl=5, permits=2))
        2
    """

    permits: int | None
    ttl: float | timedelta | None
    wait: float | timedelta | None
    renew: bool | None
    max_hold: float | timedelta | None
    min_hold: float | timedelta | None
    node_timeout: float | timedelta | None
    label: str | bool | None


class ReaderOptions(TypedDict, total=False):
    """The options of `read`, for code that passes them on. Those of `write` are `LockOptions`.

    Example:
        >>> from typing import Unpack
        >>> def load(name: str, **options: Unpack[redlock.types.ReaderOptions]) -> bool:
        ...     with client.rwlock(name).read(**options) as lease:
        ...         return lease.held
        >>> load("config", ttl=5)
        True
    """

    ttl: float | timedelta | None
    wait: float | timedelta | None
    renew: bool | None
    max_hold: float | timedelta | None
    node_timeout: float | timedelta | None
    label: str | bool | None


_D = TypeVar("_D", covariant=True)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class LockDecorator(Protocol[_D]):
    """The result of `lock(name, default=...)`. It can only decorate functions.

    A call of the decorated function that cannot acquire the lock returns the default.

    Example:
        >>> skips: redlock.types.LockDecorator[None] = client.lock("report", wait=0, default=None)
        >>> @skips
        ... def report(user): return len(user)
        >>> report("eve")
        3
    """

    @overload
    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _R]]
    ) -> Callable[_P, Coroutine[Any, Any, _R | _D]]: ...
    @overload
    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R | _D]: ...


class AsyncLockDecorator(Protocol[_D]):
    """The result of `AsyncRedlock.lock(name, default=...)`. It can only decorate coroutine functions.

    Example:
        >>> async_client = redlock.AsyncRedlock("memory://")
        >>> skips: redlock.types.AsyncLockDecorator[None] = async_client.lock("report", wait=0, default=None)
        >>> @skips
        ... async def report(user): return len(user)
        >>> await report("eve")
        3
    """

    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _R]]
    ) -> Callable[_P, Coroutine[Any, Any, _R | _D]]: ...
