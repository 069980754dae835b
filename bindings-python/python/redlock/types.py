"""Types of results without a separate class, for annotations.

Import this module only where you need it. It imports `typing`, which takes longer than all the rest of redlock.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, overload

__all__ = ["AsyncLockDecorator", "LockDecorator"]

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
