"""`@lock`: a function that holds the lock during each call, for every kind of function.

The kind of a callable is not enough. A wrapper, a lambda or an object may return an awaitable or a
generator, of which nothing has run yet. So the result is checked too. An awaitable keeps the lease until it ends. A
generator is rejected.
"""

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from redlock._body import EnteredFor
from redlock._coroutine_function import coroutine_function
from redlock._current import await_under, call_under
from redlock._naming import naming
from redlock.errors import LockTimeout

if TYPE_CHECKING:
    from types import CodeType

    from redlock._native import Lease, Lock


def decorate(
    lock: "Lock", function: Any, enter: Callable[..., Any], *, only_async: bool = False
) -> Any:
    """Returns a function that holds the lock during each call.

    Args:
        lock: The lock, whose name may be a template.
        function: The function to decorate.
        enter: Enters a lock for an `async with`.
        only_async: Accept only coroutine functions, because a call of others would block.

    Raises:
        TypeError: This kind of function cannot be decorated.
        InvalidOption: The lock's name contains braces that match no parameter.
    """
    if isinstance(function, classmethod | staticmethod):
        inner = decorate(lock, function.__func__, enter, only_async=only_async)
        return type(function)(inner)
    refuse(lock, function)
    is_coroutine = is_coroutine_function(function, only_async=only_async)
    call = _Call(lock, function)
    return _asynchronous(call, enter) if is_coroutine else _any(call)


class _Call:
    """A decorated function, its lock, and what a call returns if it cannot acquire the lock."""

    __slots__ = ("default", "function", "lock")

    def __init__(self, lock: "Lock", function: Callable[..., Any]) -> None:
        self.function = function
        self.lock = naming(lock, function)
        self.default: tuple[Any, ...] = lock._default()


def refuse(lock: "Lock", function: Any) -> None:
    """Rejects what cannot be decorated."""
    if inspect.isclass(function):
        raise TypeError(
            f"{function!r} is a class, and decorating it would replace it by a function: decorate its methods"
        )
    if isinstance(function, property | functools.cached_property):
        raise TypeError(
            f"a property cannot be decorated: put @{type(function).__name__} above the lock's decorator, not below"
        )
    if not callable(function):
        bare = "" if isinstance(lock._given(), list) else ". Was @lock meant to be @lock(name)?"
        raise TypeError(f"{function!r} is not a function{bare}")


def is_coroutine_function(function: Any, *, only_async: bool) -> bool:
    """Returns whether a call returns a coroutine. Rejects generators, and with `only_async` all other functions."""
    code = _code_of(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise _generator(function)
    is_coroutine = _is_coroutine(code)
    if only_async and not is_coroutine:
        raise TypeError(
            f"{function!r} is not an 'async def', which asynchronous clients need. Use as_sync() of the client"
        )
    return is_coroutine


def check_body(function: Any, instead: str, *, is_async: bool) -> None:
    """Rejects what `run` cannot call. `instead` tells what to use for coroutine functions."""
    if not callable(function):
        raise TypeError(f"{function!r} is not a function: pass one, and then its arguments")
    if is_coroutine_function(function, only_async=is_async) and not is_async:
        raise TypeError(f"{function!r} is an 'async def'. {instead}")


def call_site(depth: int) -> "tuple[CodeType, int]":
    """Returns where the program made a call, `depth` frames above the caller of this function.

    Native code, such as `atexit`, calls without a frame. The place is then the one in this package.
    """
    try:
        frame = sys._getframe(depth + 1)
    except ValueError:
        frame = sys._getframe(1)
    return frame.f_code, frame.f_lasti


def finished(function: Any, result: Any) -> Any:
    """Returns the result of a function, which must not be an awaitable: the lease ends before it is awaited."""
    result = _no_generator(function, result)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            # Otherwise Python would warn that it was never awaited.
            result.close()
        raise TypeError(
            f"{function!r} returned an awaitable, which would run without the lock. Await it in an 'async def'"
        )
    return result


def _code_of(function: Any) -> Any:
    """Returns the function that `inspect` can classify. For an object this is its `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    marked = inspect.iscoroutinefunction(function) or hasattr(function, "_is_coroutine")
    return function if marked else type(function).__call__


def _is_coroutine(code: Any) -> bool:
    if inspect.iscoroutinefunction(code):
        return True
    # Functions were marked like this before 3.12, and mocks still are. Do not import asyncio only to check that.
    coroutines = sys.modules.get("asyncio.coroutines")
    mark = getattr(coroutines, "_is_coroutine", None)
    return mark is not None and getattr(code, "_is_coroutine", None) is mark


def _generator(what: Any) -> TypeError:
    return TypeError(
        f"{what!r} is a generator: its caller decides when it ends. Use 'with lock:' inside of it"
    )


def _asynchronous(call: _Call, enter: Callable[..., Any]) -> Callable[..., Any]:
    function = call.function

    @coroutine_function
    def acall(*args: Any, **kwargs: Any) -> Any:
        return _named(_held_during(call, enter, call_site(1), args, kwargs), function)

    return functools.wraps(function)(acall)


async def _held_during(
    call: _Call,
    enter: Callable[..., Any],
    site: "tuple[CodeType, int]",
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    entered = False
    try:
        async with EnteredFor(enter, call.lock(args, kwargs), site) as lease:
            entered = True
            result = await await_under(lease.as_sync(), call.function, args, kwargs)
            return _no_generator(call.function, result)
    except LockTimeout:
        # After the entry, the error is about another lock, which the function acquires.
        if entered or not call.default:
            raise
        return call.default[0]


def _any(call: _Call) -> Callable[..., Any]:
    function = call.function

    @functools.wraps(function)
    def held_during(*args: Any, **kwargs: Any) -> Any:
        held = call.lock(args, kwargs)
        entered = False
        try:
            with held as lease:
                entered = True
                result = call_under(lease, function, args, kwargs)
                if not inspect.isawaitable(_no_generator(function, result)):
                    return result
                owner = _LeaseOfAwaitable(lease, result)
                # From here on the awaitable releases the lease, not the with statement.
                held._hand_over(lease)
                return _awaitable(owner, function)
        except LockTimeout:
            if entered or not call.default:
                raise
            return call.default[0]

    return held_during


def _no_generator(function: Any, result: Any) -> Any:
    # A context manager of contextlib has its generator in `gen`.
    manages = hasattr(result, "__enter__") or hasattr(result, "__aenter__")
    inner = getattr(result, "gen", None) if manages else result
    if inspect.isasyncgen(inner) or (inspect.isgenerator(inner) and not inspect.isawaitable(inner)):
        raise _generator(function)
    return result


class _LeaseOfAwaitable:
    """A lease that an awaitable keeps. If the awaitable is never awaited, the lease is released with this object."""

    __slots__ = ("awaitable", "lease")

    def __init__(self, lease: "Lease", awaitable: Awaitable[Any]) -> None:
        self.lease: Lease | None = lease
        self.awaitable = awaitable

    def drop(self) -> None:
        lease, self.lease = self.lease, None
        if lease is not None:
            lease._let_go()
            if inspect.iscoroutine(self.awaitable):
                # Otherwise Python would warn twice that it was never awaited.
                self.awaitable.close()

    __del__ = drop


async def _await_and_release(owner: _LeaseOfAwaitable) -> Any:
    lease = owner.lease
    assert lease is not None
    try:
        async with lease.as_async():
            owner.lease = None
            return await await_under(lease, lambda: owner.awaitable, (), {})
    finally:
        # A lease that has ended is not entered.
        owner.drop()


def _named(coroutine: Any, function: Any) -> Any:
    """Gives a coroutine the name of the decorated function, which Python shows for tasks and in warnings."""
    coroutine.__name__ = getattr(function, "__name__", coroutine.__name__)
    coroutine.__qualname__ = getattr(function, "__qualname__", coroutine.__qualname__)
    return coroutine


def _awaitable(owner: _LeaseOfAwaitable, function: Any) -> Any:
    coroutine = _named(_await_and_release(owner), function)
    asyncio: Any = sys.modules.get("asyncio")
    awaitable: Any = owner.awaitable
    if asyncio is not None and asyncio.isfuture(awaitable):
        # A future runs without being awaited, so a task awaits it.
        return awaitable.get_loop().create_task(coroutine)
    return coroutine
