"""Clients in Python: `from_client`, and the methods of `AsyncRedlock` that are awaited.

The classes of `redlock._native` get the methods of the classes below when the package is imported, as in `_asyncio`.
"""

import sys

from redlock import _native
from redlock._coroutine_function import coroutine_function
from redlock._native import _conclude
from redlock.errors import LockError

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from datetime import timedelta
    from os import PathLike
    from types import CodeType, TracebackType
    from typing import Any, Self

    from redlock._native import AsyncLease as _AsyncLease
    from redlock._native import AsyncLock as _AsyncLock
    from redlock._native import AsyncRedlock as _AsyncRedlock
    from redlock._native import Lock as _Lock
    from redlock._native import Ping as _Ping
    from redlock._native import Redlock as _Redlock

    _Names = str | list[str] | tuple[str, ...]
else:
    _AsyncRedlock = object


async def _attach(
    client: "_Redlock",
    site: "tuple[CodeType, int]",
    name: "_Names",
    token: str,
    ttl: "float | timedelta | None",
) -> "_AsyncLease":
    return await client.lock(name, ttl=ttl)._attach(site, token)


_attach.__qualname__ = "AsyncRedlock.attach"


class Redlock:
    """The Python methods of `redlock.Redlock`, which `AsyncRedlock` has too."""

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
        tls_ca: "str | PathLike[str] | bytes | None" = None,
        tls_cert: "str | PathLike[str] | bytes | None" = None,
        tls_key: "str | PathLike[str] | bytes | None" = None,
        tls_server_name: "str | None" = None,
        tls_verify: "bool | None" = None,
        client_name: "str | None" = None,
        label: "str | bool | None" = None,
        credentials: "Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | timedelta | None]] | None" = None,  # noqa: E501
        address_map: "Mapping[str, str] | Callable[[str, int], tuple[str, int]] | None" = None,
    ) -> "Self":
        """Returns a client with the settings of a redis-py client. It opens separate connections.

        Address, database, user, password or credential provider, TLS, client name, timeouts and `address_remap` are
        taken from the given client. Options take precedence over them. Does not connect, and does not keep the given
        client.

        Args:
            client: A `redis.Redis`, `redis.asyncio.Redis`, `ConnectionPool`, `RedisCluster` or `Sentinel`. A list of
                them is a quorum of independent nodes.
            service: Name of the service. Only for a `Sentinel`.
            key_prefix: Prefix of every key. This and all further arguments are options of `Redlock`.
            node_timeout: Timeout for the reply of one node, in seconds.
            connect_timeout: Timeout for connecting, in seconds.
            unavailable_after: Time in seconds after which an acquire without `wait` fails if no quorum of nodes
                replies. None waits forever.
            restart_guard: Time in seconds for which a restarted node does not vote.
            min_replicas: Number of replicas that must confirm a grant or renewal.
            fsync: Require that a grant or renewal is on disk.
            tls_ca: Certificates of CAs and servers to trust, as a path or as PEM bytes.
            tls_cert: Client certificate, as a path or as PEM bytes.
            tls_key: Private key of the certificate, as a path or as PEM bytes.
            tls_server_name: Name that the server's certificate must contain.
            tls_verify: Verify the server's certificate.
            client_name: Connection name in the server's `CLIENT LIST`.
            label: Label of the locks that set none. True writes the host and the process.
            credentials: Callback that returns a password, `(user, password)` or `(user, password, seconds)`.
            address_map: Where to connect to servers that announce other addresses, as a mapping or a function.

        Returns:
            The client.

        Raises:
            InvalidOption: `client` is something else, or has a setting without a counterpart that decides which server
                is used or trusted. Other settings without a counterpart cause one warning.

        Example:
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
            "tls_ca": tls_ca,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "tls_server_name": tls_server_name,
            "tls_verify": tls_verify,
            "client_name": client_name,
            "label": label,
            "credentials": credentials,
            "address_map": address_map,
        }
        # Imported only by programs with such a client.
        from redlock._redis_py import read_clients

        # None is a value of `unavailable_after`.
        given = {
            name: value
            for name, value in options.items()
            if (value is not ... if name == "unavailable_after" else value is not None)
        }
        nodes, more = read_clients(client, service, given)
        made: Any = cls
        return made(nodes, **given, **more)  # type: ignore[no-any-return]


class AsyncRedlock(Redlock, _AsyncRedlock):
    """The Python methods of `redlock.AsyncRedlock`."""

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if isinstance(error, GeneratorExit):
            # The coroutine is being closed. There may be no loop to wait in.
            self._client._let_go()
            return
        try:
            await self.shutdown(0)
        except LockError as problem:
            _conclude(problem, error)

    @coroutine_function
    def attach(
        self, name: "_Names", token: str, *, ttl: "float | timedelta | None" = None
    ) -> "Coroutine[Any, Any, _AsyncLease]":
        """Continues the lease that another process holds under this token.

        The same as `client.lock(name, ttl=ttl).attach(token)`.

        Args:
            name: The name of the lock, or several.
            token: The `token` of the other lease.
            ttl: Lifetime of the lease without renewal, in seconds or as a timedelta. Default: 10.

        Returns:
            The lease.

        Raises:
            LockLost: The lease is not held any longer.
            QuorumUnavailable: Too few nodes replied.
            Unsupported: The key has data of another type.
            ClientClosed: The client was closed.

        Example:
            >>> theirs = await client.as_async().attach("job", lease.token)
        """
        frame = sys._getframe(1)
        site = (frame.f_code, frame.f_lasti)
        return _attach(self._client, site, name, token, ttl)

    async def force_release(self, name: "_Names | _Lock | _AsyncLock") -> bool:
        """Deletes the lock, even if another client holds it. Its holder is notified of the loss.

        Args:
            name: The name of the lock, or several, or a lock object. The latter is needed for a semaphore.

        Returns:
            Whether any node had a key of the lock.

        Raises:
            QuorumUnavailable: Too few nodes replied.
            Unsupported: The key has a value that is not a token. It is then no lock, and stays.

        Example:
            >>> await client.as_async().force_release("job")
            True
        """
        return await self._client._force_release(name)

    async def ping(self, timeout: "float | timedelta" = 1) -> "_Ping":
        """Asks each node whether it would grant a lock now, for readiness probes. No lock is acquired.

        It sends a write without effect, which a replica, a server that is loading, and one without memory or disk
        refuse. Nodes that fail are part of the result, and no error.

        Args:
            timeout: Maximum time to wait for all replies, in seconds or as a timedelta. Default 1.

        Returns:
            A `Ping`, whose `ready` is True if a quorum of the nodes would grant a lock.

        Raises:
            ClientClosed: The client was closed.
            InvalidOption: `timeout` is 0 or invalid.

        Example:
            >>> (await client.as_async().ping(timeout=0.5)).ready
            True
        """
        return await self._client._ping(timeout)

    async def release_all(self) -> int:
        """Releases all leases of this client. Code that still uses one gets LockLost with reason `revoked`.

        Returns:
            The number of leases.

        Raises:
            LockError: The first error, after every release was tried.

        Example:
            >>> await client.as_async().release_all()
            1
        """
        return await self._client._release_all()

    async def shutdown(self, timeout: "float | timedelta" = 10) -> int:
        """Ends the client in order.

        From the call on, new acquires raise ClientClosed. Waiting acquires and running bodies have until the timeout.
        Then waiting acquires raise ClientClosed. Leases that are still held are released, and their holders get
        LockLost with reason `revoked`. A node that cannot be reached and has pending deletes has until the timeout to
        come back. A cancellation ends only the wait. The shutdown continues in the background.

        Args:
            timeout: Seconds or a timedelta. With 0, waiting acquires and held leases end at once.

        Returns:
            The number of leases that were still held at the timeout, or 0 if the client is already closed.

        Raises:
            QuorumUnavailable: Too few nodes confirmed the releases, or a blocked event loop could not end an acquire.
                Those keys expire when their TTL ends. The client is closed nevertheless.

        Example:
            >>> await client.as_async().shutdown(timeout=0)
            1
        """
        return await self._client._shutdown(timeout)


for _class in (Redlock, AsyncRedlock):
    for _name, _method in (vars(Redlock) | vars(_class)).items():
        if callable(_method) or isinstance(_method, classmethod):
            # The stubs have the types. These names exist for type checkers only.
            getattr(_method, "__func__", _method).__annotations__ = {}
            setattr(getattr(_native, _class.__name__), _name, _method)
