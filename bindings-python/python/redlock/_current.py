"""`current_lease`: the lease under which this package runs a function that cannot receive it as an argument."""

from contextvars import ContextVar

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token

    from redlock._native import Lease

_CURRENT: "ContextVar[Lease]" = ContextVar("redlock.current_lease")


def current_lease() -> "Lease":
    """Returns the lease of the innermost function that `@lock`, `@once` or a `run` calls.

    Such a function gets its arguments from its caller, so this is how it checks its lease, extends it or reads its
    fencing token. Tasks that it starts and `asyncio.to_thread` have the lease too, and a `threading.Thread` does not. A
    `with` statement gives its lease by `as`, and does not change this one.

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
    try:
        return _CURRENT.get()
    except LookupError:
        raise RuntimeError(
            "no function of @lock, @once or run() runs in this context. Pass the lease to a new thread as an argument,"
            " and use 'as' in a 'with' statement"
        ) from None


class Current:
    """A block whose current lease is this one."""

    __slots__ = ("lease", "token")

    def __init__(self, lease: "Lease") -> None:
        self.lease = lease

    def __enter__(self) -> None:
        self.token: Token[Lease] = _CURRENT.set(self.lease)

    def __exit__(self, *_: object) -> None:
        # `contextlib.suppress` would import `contextlib`.
        try:  # noqa: SIM105
            _CURRENT.reset(self.token)
        except ValueError:
            # A coroutine that never ends is closed in another context, whose lease is not changed.
            pass
