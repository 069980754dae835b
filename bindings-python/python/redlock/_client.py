"""What a client has from Python: `from_client`, `async with`, and its verbs for asyncio.

The native class gets it when the package is imported, as others get theirs in `_asyncio`.
"""

import sys

from redlock import _native
from redlock._coroutine_function import coroutine_function, line_of
from redlock._native import _conclude
from redlock.errors import LockError

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from datetime import timedelta
    from os import PathLike
    from types import TracebackType
    from typing import Any, Self

    from redlock._native import Lease as _Lease
    from redlock._native import Redlock as _Redlock

    _Names = str | list[str] | tuple[str, ...]
else:
    _Redlock = object


async def _aattach(
    client: "_Redlock",
    line: "tuple[str, int | None]",
    name: "_Names",
    token: str,
    ttl: "float | timedelta | None",
) -> "_Lease":
    return await client.lock(name, ttl=ttl)._attach(line, token)


_aattach.__qualname__ = "Redlock.aattach"


class Redlock(_Redlock):
    """What `redlock.Redlock` has from here."""

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if isinstance(error, GeneratorExit):
            # The coroutine is being closed: there may be no loop to wait in.
            self._let_go()
            return
        try:
            await self.ashutdown(0)
        except LockError as problem:
            _conclude(problem, error)

    @coroutine_function
    def aattach(
        self, name: "_Names", token: str, *, ttl: "float | timedelta | None" = None
    ) -> "Coroutine[Any, Any, _Lease]":
        """`attach` for asyncio.

        >>> theirs = await client.aattach("job", lease.token)
        """
        return _aattach(self, line_of(sys._getframe(1)), name, token, ttl)

    async def aforce_release(self, name: "_Names") -> bool:
        """`force_release` for asyncio.

        >>> await client.aforce_release("job")
        True
        """
        return await self._force_release(name)

    async def arelease_all(self) -> int:
        """`release_all` for asyncio.

        >>> await client.arelease_all()
        1
        """
        return await self._release_all()

    async def ashutdown(self, timeout: "float | timedelta" = 10) -> int:
        """`shutdown` for asyncio.

        >>> await client.ashutdown(timeout=0)
        1
        """
        return await self._shutdown(timeout)

    @classmethod
    def from_client(
        cls,
        client: "Any | Sequence[Any]",
        *,
        service: "str | None" = None,
        key_prefix: "str | None" = None,
        node_timeout: "float | timedelta | None" = None,
        connect_timeout: "float | timedelta | None" = None,
        unavailable_after: "float | timedelta | None" = ...,  # type: ignore[assignment]
        restart_guard: "float | timedelta | None" = None,
        min_replicas: "int | None" = None,
        fsync: "bool | None" = None,
        scripts: "bool | None" = None,
        tls_ca: "str | PathLike[str] | bytes | None" = None,
        tls_cert: "str | PathLike[str] | bytes | None" = None,
        tls_key: "str | PathLike[str] | bytes | None" = None,
        tls_server_name: "str | None" = None,
        tls_verify: "bool | None" = None,
        client_name: "str | None" = None,
        credentials: "Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | timedelta | None]] | None" = None,  # noqa: E501
    ) -> "_Redlock":
        """A client of the servers that redis-py's clients are for, with connections of its own.

        Takes a `redis.Redis`, `redis.asyncio.Redis`, `ConnectionPool`, `RedisCluster`, or a `Sentinel` with the name of
        its `service`; a list of them is a quorum of independent nodes. Address, database, user, password or credential
        provider, TLS, client name and time-outs are taken over; the options are those of `Redlock`, and win over what
        the client says. Nothing connects here, and the client is not used nor kept.

        Raises InvalidOption for what is no such client, and for a setting without a counterpart here that says whom
        to trust or where to go; warns once of others that have none.

            >>> import redis
            >>> redlock.Redlock.from_client(redis.Redis(port=6380, db=1), key_prefix="app:").nodes
            ['redis://localhost:6380/1']
        """
        options: dict[str, Any] = {
            "key_prefix": key_prefix,
            "node_timeout": node_timeout,
            "connect_timeout": connect_timeout,
            "unavailable_after": unavailable_after,
            "restart_guard": restart_guard,
            "min_replicas": min_replicas,
            "fsync": fsync,
            "scripts": scripts,
            "tls_ca": tls_ca,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "tls_server_name": tls_server_name,
            "tls_verify": tls_verify,
            "client_name": client_name,
            "credentials": credentials,
        }
        # Read only by whoever has such a client.
        from redlock._redis_py import taken_over

        # None is a value of `unavailable_after`.
        given = {
            name: value
            for name, value in options.items()
            if (value is not ... if name == "unavailable_after" else value is not None)
        }
        nodes, more = taken_over(client, service, given)
        return cls(nodes, **given, **more)


for _name, _method in vars(Redlock).items():
    if callable(_method) or isinstance(_method, classmethod):
        # As of the methods in `_asyncio`.
        getattr(_method, "__func__", _method).__annotations__ = {}
        setattr(_native.Redlock, _name, _method)
