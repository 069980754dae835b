"""`leader`: runs a function while this candidate leads, and campaigns again after a loss.

The classes of `redlock._native` get the methods of the classes below when the package is imported, as in `_asyncio`.
"""

import sys

from redlock import _native
from redlock._asyncio import _acquire, _body, _enter
from redlock._body import leave
from redlock._coroutine_function import coroutine_function
from redlock._current import await_under, call_under
from redlock.errors import LockLost, LockReleased

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import CodeType, TracebackType
    from typing import Any, Concatenate, ParamSpec, TypeVar

    from redlock._native import AsyncLeader as _AsyncLeader
    from redlock._native import AsyncLease as _AsyncLease
    from redlock._native import Leader as _Leader
    from redlock._native import Lease as _Lease
    from redlock._native import Lock as _Lock

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
else:
    _AsyncLeader = _Leader = object


def _lost(lease: "Any", returned: bool, error: BaseException) -> bool:
    """Returns whether a term ended by its loss, so that the next campaign begins.

    A loss of another lock is an error of the function, also if it has the same key on other servers. So is a use of the
    lease after the function released it.
    """
    # After the function returned, only the release failed. The lease has then no loss if its keys were missing.
    return _is_loss(lease.key, error) and (returned or _has_lost(lease))


def _is_loss(key: str, error: BaseException) -> bool:
    """A forked child does not campaign for a term of its parent."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_loss(key, each) for each in error.exceptions)
    return isinstance(error, LockLost) and error.resource == key and error.reason != "forked"


def _has_lost(lease: "Any") -> bool:
    try:
        lease.ensure_held()
    except LockLost as error:
        return not isinstance(error, LockReleased)
    return False


def _lead(
    lock: "_Lock",
    site: "tuple[CodeType, int]",
    call: "tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]",
) -> "Any":
    """Runs a plain function while leading, and returns its result."""
    from redlock._decorator import finished

    function, args, kwargs = call
    while True:
        lease: Any = lock._acquire(site, "'await leader.as_async().run(...)'")
        returned = False
        try:
            with lease:
                result = call_under(lease, function, (lease, *args), kwargs)
                result = finished(function, result)
                returned = True
        except (LockLost, BaseExceptionGroup) as error:
            if not _lost(lease, returned, error):
                raise
        else:
            return result


async def _lead_coroutine(
    lock: "_Lock",
    site: "tuple[CodeType, int]",
    call: "tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]",
) -> "Any":
    """Awaits a coroutine function while leading, and returns its result."""
    from redlock._decorator import finished

    function, args, kwargs = call
    caller = _body()
    while True:
        lease = await _acquire(lock._start_acquire, site)
        returned = False
        try:
            # A loss cancels this task, so the function has ended when the next campaign begins.
            async with lease:
                result = await await_under(lease.as_sync(), function, (lease, *args), kwargs)
                result = finished(function, result)
                returned = True
        except (LockLost, BaseExceptionGroup) as error:
            if not _lost(lease, returned, error):
                raise
            # The function may have replaced the cancellation of its caller by the LockLost.
            caller.ensure_not_cancelled()
        else:
            return result


def _start_run(lock: "_Lock", is_async: bool, function: "Any", args: "Any", kwargs: "Any") -> "Any":
    """Runs a function for the caller of `run`."""
    from redlock._decorator import call_site, check_body

    check_body(function, "Use run() of as_async() of the leader", is_async=is_async)
    run: Any = _lead_coroutine if is_async else _lead
    return run(lock, call_site(2), (function, args, kwargs))


# Python shows this name, for example in the warning about a coroutine that was never awaited.
_lead_coroutine.__qualname__ = "AsyncLeader.run"


class Leader(_Leader):  # type: ignore[misc]
    """The Python methods of `redlock.Leader`."""

    def run(
        self,
        function: "Callable[Concatenate[_Lease, _P], _R]",
        /,
        *args: "_P.args",
        **kwargs: "_P.kwargs",
    ) -> "_R":
        """Campaigns until it leads, calls the function with the lease, and resigns when the function returns.

        A loss of the lease does not interrupt the function. It can check `lease.held` or call `lease.ensure_held()`,
        and a function with `lease.on_lost` is notified. If the lease was lost before the function ended, its result is
        dropped, and the next campaign begins. So it does if the function raised the LockLost of its lease.

        Args:
            function: The function to call. It receives the lease of the term, and then these arguments.
            *args: Its further arguments.
            **kwargs: Its keyword arguments.

        Returns:
            The result of the function.

        Raises:
            ClientClosed: The client was closed.
            QuorumUnavailable: The servers refuse the login or the commands. Other outages do not end a campaign.
            Unsupported: A server lacks what an option of the client needs.
            TypeError: The function is a coroutine function or a generator, or returns an awaitable.

        Example:
            >>> def schedule(lease, job):
            ...     lease.ensure_held()
            ...     return f"{job} done"
            >>> client.leader("scheduler").run(schedule, "report")
            'report done'
        """
        return _start_run(self._lock, False, function, args, kwargs)  # type: ignore[no-any-return]


class AsyncLeader(_AsyncLeader):  # type: ignore[misc]
    """The Python methods of `redlock.AsyncLeader`."""

    @coroutine_function
    def run(
        self,
        function: "Callable[Concatenate[_AsyncLease, _P], Coroutine[Any, Any, _R]]",
        /,
        *args: "_P.args",
        **kwargs: "_P.kwargs",
    ) -> "Coroutine[Any, Any, _R]":
        """Campaigns until it leads, awaits the function with the lease, and resigns when the function returns.

        A loss of the lease cancels the function. When it has ended, the next campaign begins. A cancellation of the
        caller ends the campaign, or cancels the function and resigns.

        Args:
            function: The coroutine function to call. It receives the lease of the term, and then these arguments.
            *args: Its further arguments.
            **kwargs: Its keyword arguments.

        Returns:
            The result of the function.

        Raises:
            ClientClosed: The client was closed.
            QuorumUnavailable: The servers refuse the login or the commands. Other outages do not end a campaign.
            Unsupported: A server lacks what an option of the client needs.
            TypeError: The function is not a coroutine function, or returns an awaitable or a generator.

        Example:
            >>> async def schedule(lease, job):
            ...     return f"{job} done"
            >>> await client.as_async().leader("scheduler").run(schedule, "report")
            'report done'
        """
        return _start_run(self._lock, True, function, args, kwargs)  # type: ignore[no-any-return]

    async def current(self) -> str | None:
        """Asks the nodes for the leader.

        Returns:
            Its label, or None if there is none. It may be outdated when you read it. The label is empty if a client
            holds a plain lock of this name without a label.

        Raises:
            QuorumUnavailable: Fewer nodes than a quorum replied within `node_timeout`.
            ClientClosed: The client was closed.

        Example:
            >>> print(await client.as_async().leader("scheduler").current())
            None
        """
        return await self._lock._current_leader()

    @coroutine_function
    def __aenter__(self) -> "Coroutine[Any, Any, _AsyncLease]":
        # Read at the call, because the coroutine may run as a task.
        frame = sys._getframe(1)
        return _enter(self._lock, (frame.f_code, frame.f_lasti), frame)

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        lease, body = self._lock._leave(sys._getframe(1))
        await leave(lease, body, error)


for _class in (Leader, AsyncLeader):
    for _name, _method in vars(_class).items():
        if callable(_method):
            # The stubs have the types. These names exist for type checkers only.
            _method.__annotations__ = {}
            setattr(getattr(_native, _class.__name__), _name, _method)
