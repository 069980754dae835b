"""`current_lease`: the lease under which this package runs a function that cannot receive it as an argument."""

from contextvars import ContextVar

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from redlock._native import Lease

    _R = TypeVar("_R")

_CURRENT: "ContextVar[Lease | None]" = ContextVar("redlock.current_lease", default=None)


def current_lease() -> "Lease":
    """Returns the lease of the innermost function that `@lock`, `@once` or a `run` calls.

    Such a function gets its arguments from its caller, so this is how it checks its lease, extends it or reads its
    fencing token. Its tasks and `asyncio.to_thread` have the lease too. Other threads, executors and greenlets do not
    by default. A `with` statement gives its lease by `as`, and does not change this one.

    Returns:
        The lease. Its `as_async()` has the methods that are awaited, for an `async def`. In a task that outlives the
        function, the lease has ended, and its `ensure_held()` raises.

    Raises:
        RuntimeError: No such function runs in this context.

    Example:
        >>> @redlock.lock("report")
        ... def report():
        ...     redlock.current_lease().ensure_held()
        ...     return "written"
        >>> report()
        'written'
    """
    lease = _CURRENT.get()
    if lease is None:
        raise RuntimeError(
            "no function of @lock, @once or run() runs in this context. Pass the lease to a new thread as an argument,"
            " and use 'as' in a 'with' statement"
        )
    return lease


def call_under(
    lease: "Lease",
    function: "Callable[..., _R]",
    args: "tuple[Any, ...]",
    kwargs: "dict[str, Any]",
) -> "_R":
    """Calls a function whose current lease is this one.

    The variable is restored here and not in an `__exit__`: a signal handler may raise before the first line of that.
    """
    token, before = None, _CURRENT.get()
    try:
        token = _CURRENT.set(lease)
        return function(*args, **kwargs)
    finally:
        if token is None:
            # A signal handler raised before the assignment.
            _CURRENT.set(before)
        else:
            _CURRENT.reset(token)


async def await_under(
    lease: "Lease",
    function: "Callable[..., Awaitable[_R]]",
    args: "tuple[Any, ...]",
    kwargs: "dict[str, Any]",
) -> "_R":
    """Awaits a coroutine function whose current lease is this one, as `call_under`."""
    token, before = None, _CURRENT.get()
    try:
        token = _CURRENT.set(lease)
        return await function(*args, **kwargs)
    finally:
        if token is None:
            _CURRENT.set(before)
        else:
            # A coroutine that never ends is closed in another context, whose lease is not changed.
            # `contextlib.suppress` would have the gap of `__exit__`.
            try:  # noqa: SIM105
                _CURRENT.reset(token)
            except ValueError:
                pass
