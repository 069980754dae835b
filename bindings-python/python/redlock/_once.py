"""`once`: runs a function unless it ran with success within a given time.

The classes of `redlock._native` get the methods of the classes below when the package is imported, as in `_asyncio`.
The end of a `with` block tells the core whether its body succeeded. Only then the core keeps the key, as the memory.
"""

import sys

from redlock import _native
from redlock._asyncio import _acquire
from redlock._coroutine_function import coroutine_function
from redlock._current import await_under, call_under

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import CodeType
    from typing import Any, Literal, ParamSpec, TypeVar, overload

    from redlock._native import AsyncOnce as _AsyncOnce
    from redlock._native import Lock as _Lock
    from redlock._native import Once as _Once

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
else:
    _AsyncOnce = _Once = object

#: For a warning.
_IN_A_LOOP = "'await client.once(...).run(...)' of an AsyncRedlock, or '@once' over an 'async def'"


def _run(
    lock: "_Lock",
    site: "tuple[CodeType, int]",
    call: "tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]",
) -> "tuple[bool, Any]":
    """Runs a plain function. Returns whether it ran, and its result."""
    lease = lock._acquire(site, _IN_A_LOOP)
    if lease is None:
        return False, None
    with lease:
        function, args, kwargs = call
        from redlock._decorator import finished

        result = call_under(lease, function, args, kwargs)
        return True, finished(function, result)


async def _run_coroutine(
    lock: "_Lock",
    site: "tuple[CodeType, int]",
    call: "tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]",
) -> "tuple[bool, Any]":
    """Runs a coroutine function. Returns whether it ran, and its result."""
    lease = await _acquire(lock._start_acquire, site)
    if lease is None:
        return False, None
    async with lease:
        function, args, kwargs = call
        from redlock._decorator import finished

        result = await await_under(lease.as_sync(), function, args, kwargs)
        return True, finished(function, result)


async def _value(run: "Coroutine[Any, Any, tuple[bool, Any]]") -> "Any":
    return (await run)[1]


def _start_run(lock: "_Lock", is_async: bool, function: "Any", args: "Any", kwargs: "Any") -> "Any":
    """Runs a function for the caller of `run`."""
    from redlock._decorator import call_site, check_body

    check_body(function, "Use once() of as_async() of the client", is_async=is_async)
    run: Any = _run_coroutine if is_async else _run
    return run(lock, call_site(2), (function, args, kwargs))


def _decorate(lock: "_Lock", only_async: bool, function: "Any") -> "Any":
    """Returns a function that runs `function` once, and returns its result or None."""
    import functools

    from redlock._decorator import call_site, is_coroutine_function, refuse
    from redlock._naming import naming

    if isinstance(function, classmethod | staticmethod):
        return type(function)(_decorate(lock, only_async, function.__func__))
    refuse(lock, function)
    is_coroutine = is_coroutine_function(function, only_async=only_async)
    lock_for = naming(lock, function)

    def plain(*args: "Any", **kwargs: "Any") -> "Any":
        return _run(lock_for(args, kwargs), call_site(1), (function, args, kwargs))[1]

    @coroutine_function
    def coroutine(*args: "Any", **kwargs: "Any") -> "Any":
        frame = sys._getframe(1)
        site = (frame.f_code, frame.f_lasti)
        return _value(_run_coroutine(lock_for(args, kwargs), site, (function, args, kwargs)))

    return functools.wraps(function)(coroutine if is_coroutine else plain)


class Once(_Once):  # type: ignore[misc]
    """The Python methods of `redlock.Once`."""

    def run(
        self, function: "Callable[_P, _R]", /, *args: "_P.args", **kwargs: "_P.kwargs"
    ) -> "tuple[Literal[True], _R] | tuple[Literal[False], None]":
        """Calls the function with these arguments, unless it ran before.

        If the function raises, nothing is remembered, and the next call runs it. After a process died, the function may
        run again when the `ttl` has ended. If too few nodes confirm the memory, this is only logged. The memory then
        lasts at least for the rest of the TTL.

        Args:
            function: The function to call. A loss of the lease does not interrupt it.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            Whether it ran, and its result: `(True, result)`, or `(False, None)` if it ran before.

        Raises:
            LockTimeout: Another caller runs the function now, and did not end within `wait`.
            LockLost: The lease was lost before the function ended. Another run may have begun, also if it succeeded.
            QuorumUnavailable: Too few nodes replied, before the function was called.
            TypeError: The function is a coroutine function or a generator, or returns an awaitable.

        Example:
            >>> once = client.once("payment:42", remember=86400)
            >>> once.run(int, "7")
            (True, 7)
            >>> once.run(int, "7")
            (False, None)
        """
        return _start_run(self._lock, False, function, args, kwargs)  # type: ignore[no-any-return]

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, function: "Callable[_P, Coroutine[Any, Any, _R]]"
        ) -> "Callable[_P, Coroutine[Any, Any, _R | None]]": ...
        @overload
        def __call__(self, function: "Callable[_P, _R]") -> "Callable[_P, _R | None]": ...

    def __call__(self, function: "Any") -> "Any":
        """Decorates a function or coroutine function, whose calls run it unless it ran before.

        Braces in the name contain parameters of the function. A call that is skipped returns None. Use `run` if the
        function may return None too.

        Args:
            function: The function to decorate.

        Returns:
            A function with the same parameters.

        Raises:
            TypeError: `function` is a class, a property or a generator.
            InvalidOption: The name contains braces that match no parameter.
        """
        return _decorate(self._lock, False, function)


class AsyncOnce(_AsyncOnce):  # type: ignore[misc]
    """The Python methods of `redlock.AsyncOnce`."""

    @coroutine_function
    def run(
        self,
        function: "Callable[_P, Coroutine[Any, Any, _R]]",
        /,
        *args: "_P.args",
        **kwargs: "_P.kwargs",
    ) -> "Coroutine[Any, Any, tuple[Literal[True], _R] | tuple[Literal[False], None]]":
        """Awaits the coroutine function with these arguments, unless it ran before.

        If the function raises or is cancelled, nothing is remembered, and the next call runs it. After a process died,
        the function may run again when the `ttl` has ended. If too few nodes confirm the memory, this is only logged.
        The memory then lasts at least for the rest of the TTL.

        Args:
            function: The coroutine function to call. It is cancelled if the lease is lost.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            Whether it ran, and its result: `(True, result)`, or `(False, None)` if it ran before.

        Raises:
            LockTimeout: Another caller runs the function now, and did not end within `wait`.
            LockLost: The lease was lost before the function ended. Another run may have begun, also if it succeeded.
            QuorumUnavailable: Too few nodes replied, before the function was called.
            TypeError: The function is not a coroutine function, or returns an awaitable or a generator.

        Example:
            >>> async def charge(): return 7
            >>> await client.as_async().once("payment:42", remember=86400).run(charge)
            (True, 7)
        """
        return _start_run(self._lock, True, function, args, kwargs)  # type: ignore[no-any-return]

    def __call__(
        self, function: "Callable[_P, Coroutine[Any, Any, _R]]"
    ) -> "Callable[_P, Coroutine[Any, Any, _R | None]]":
        """Decorates a coroutine function, whose calls run it unless it ran before.

        Braces in the name contain parameters of the function. A call that is skipped returns None. Use `run` if the
        function may return None too.

        Args:
            function: The `async def` to decorate.

        Returns:
            A coroutine function with the same parameters.

        Raises:
            TypeError: `function` is not a coroutine function.
            InvalidOption: The name contains braces that match no parameter.
        """
        return _decorate(self._lock, True, function)  # type: ignore[no-any-return]


for _class in (Once, AsyncOnce):
    for _name, _method in vars(_class).items():
        if callable(_method):
            # The stubs have the types. These names exist for type checkers only.
            _method.__annotations__ = {}
            setattr(getattr(_native, _class.__name__), _name, _method)
