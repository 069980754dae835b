"""`@lock`: a function that holds the lock during each call, whatever kind of function it is.

What is called says little: a wrapper, a lambda or an object may return an awaitable, or a generator, of which nothing
has run yet. So the result is looked at. An awaitable takes the lease along; a generator is refused.
"""

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from redlock._naming import naming
from redlock.errors import LockTimeout

if TYPE_CHECKING:
    from redlock._native import Lease, Lock


def decorate(lock: "Lock", function: Any) -> Any:
    """The function that holds the lock during each call."""
    if isinstance(function, classmethod | staticmethod):
        return type(function)(decorate(lock, function.__func__))
    _refuse(lock, function)
    code = _code_of(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise _generator(function)
    call = _Call(lock, function)
    return _asynchronous(call) if _is_coroutine(code) else _any(call)


class _Call:
    """A decorated function, its lock, and what a call returns if it cannot acquire the lock."""

    __slots__ = ("default", "function", "lock")

    def __init__(self, lock: "Lock", function: Callable[..., Any]) -> None:
        self.function = function
        self.lock = naming(lock, function)
        self.default: tuple[Any, ...] = lock._default()


def _refuse(lock: "Lock", function: Any) -> None:
    if inspect.isclass(function):
        raise TypeError(
            f"{function!r} is a class, which would be one no more: decorate its methods"
        )
    if isinstance(function, property | functools.cached_property):
        raise TypeError(
            f"a property cannot be decorated: put @{type(function).__name__} above the lock's decorator, not below"
        )
    if not callable(function):
        bare = "" if isinstance(lock._given(), list) else "; or was @lock meant to be @lock(name)?"
        raise TypeError(f"{function!r} is not a function{bare}")


def _code_of(function: Any) -> Any:
    """What inspect can tell the kind of: of an object, how it is called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    marked = inspect.iscoroutinefunction(function) or hasattr(function, "_is_coroutine")
    return function if marked else type(function).__call__


def _is_coroutine(code: Any) -> bool:
    if inspect.iscoroutinefunction(code):
        return True
    # How a function is marked before 3.12, and by mocks; asyncio is not imported for the answer.
    coroutines = sys.modules.get("asyncio.coroutines")
    mark = getattr(coroutines, "_is_coroutine", None)
    return mark is not None and getattr(code, "_is_coroutine", None) is mark


def _generator(what: Any) -> TypeError:
    return TypeError(
        f"{what!r} is a generator: its caller decides when it ends; use 'with lock:' inside of it"
    )


def _asynchronous(call: _Call) -> Callable[..., Any]:
    function = call.function

    @functools.wraps(function)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        entered = False
        try:
            async with call.lock(args, kwargs):
                entered = True
                return _no_generator(function, await function(*args, **kwargs))
        except LockTimeout:
            # The function may have asked for locks of its own.
            if entered or not call.default:
                raise
            return call.default[0]

    return acall


def _any(call: _Call) -> Callable[..., Any]:
    function = call.function

    @functools.wraps(function)
    def held_during(*args: Any, **kwargs: Any) -> Any:
        held = call.lock(args, kwargs)
        entered = False
        try:
            with held as lease:
                entered = True
                result = _no_generator(function, function(*args, **kwargs))
                if not inspect.isawaitable(result):
                    return result
                kept = _Kept(lease, result)
                # From here on it is the awaitable's to release, not the with statement's.
                held._hand_over(lease)
                return _awaitable(kept, function)
        except LockTimeout:
            if entered or not call.default:
                raise
            return call.default[0]

    return held_during


def _no_generator(function: Any, result: Any) -> Any:
    # A context manager of contextlib's has its generator in `gen`.
    manages = hasattr(result, "__enter__") or hasattr(result, "__aenter__")
    inner = getattr(result, "gen", None) if manages else result
    if inspect.isasyncgen(inner) or (inspect.isgenerator(inner) and not inspect.isawaitable(inner)):
        raise _generator(function)
    return result


class _Kept:
    """A lease that goes with an awaitable; if nobody ever awaits that, it is given back when this is collected."""

    __slots__ = ("awaitable", "lease")

    def __init__(self, lease: "Lease", awaitable: Awaitable[Any]) -> None:
        self.lease: Lease | None = lease
        self.awaitable = awaitable

    def drop(self) -> None:
        lease, self.lease = self.lease, None
        if lease is not None:
            lease._let_go()
            if inspect.iscoroutine(self.awaitable):
                # One warning of what was never awaited is enough.
                self.awaitable.close()

    __del__ = drop


async def _under(kept: _Kept) -> Any:
    lease = kept.lease
    assert lease is not None
    try:
        async with lease:
            kept.lease = None
            return await kept.awaitable
    finally:
        # A lease that is over is not entered.
        kept.drop()


def _awaitable(kept: _Kept, function: Any) -> Any:
    under: Any = _under(kept)
    under.__name__ = getattr(function, "__name__", under.__name__)
    under.__qualname__ = getattr(function, "__qualname__", under.__qualname__)
    asyncio: Any = sys.modules.get("asyncio")
    awaitable: Any = kept.awaitable
    if asyncio is not None and asyncio.isfuture(awaitable):
        # It runs by itself, and so does what waits for it.
        return awaitable.get_loop().create_task(under)
    return under
