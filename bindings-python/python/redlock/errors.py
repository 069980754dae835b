"""The error classes. Each has a code, and the codes are the same in every language."""

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from redlock.types import ErrorCode, LossReason, NodeState


class NodeReport:
    """The report of one node.

    `url` is the node's URL without its password. `error` is the text of the node's error, or None.

    `state` is `granted`, `held`, `kept` (released, and stays for `min_hold`), `missing` (no key to extend or release),
    `free`, `fault`, or `pending` if the round ended before the node replied.

        >>> redlock.NodeReport("redis://127.0.0.1:6379", "fault", "cannot connect").state
        'fault'
    """

    __slots__ = ("error", "state", "url")

    def __init__(self, url: str, state: "NodeState", error: str | None = None) -> None:
        self.url: str = url
        self.state: NodeState = state
        self.error: str | None = error

    def _values(self) -> tuple[str, str, str | None]:
        return (self.url, self.state, self.error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeReport) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"NodeReport(url={self.url!r}, state={self.state!r}, error={self.error!r})"


class LockError(Exception):
    """The base class of all errors. `code` identifies the error without its class. Times are in seconds.

    An error of exactly this class has the code `internal` and is a bug in redlock.

    The page Troubleshooting of the documentation lists causes and remedies for each code.

        >>> try:
        ...     client.lock("job", ttl=0)
        ... except redlock.LockError as error:
        ...     error.code
        'invalid'
    """

    code: "ErrorCode" = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        resource: str | None = None,
        waited: float | None = None,
        remaining: float | None = None,
        holder: str | None = None,
        reason: "LossReason | None" = None,
        nodes: tuple[NodeReport, ...] = (),
    ) -> None:
        super().__init__(message)
        #: The Redis key.
        self.resource: str | None = resource
        #: How long the acquire had waited, in seconds.
        self.waited: float | None = waited
        #: The remaining time of the holder's lease in seconds, if a node reported it.
        self.remaining: float | None = remaining
        #: The label of the holder, if it has one. Any client can write any label, so it informs people only.
        self.holder: str | None = holder
        #: Why the lease was lost: expired, taken, missing, quorum, max_hold, forked, revoked, closed or internal.
        self.reason: LossReason | None = reason
        #: The reports of the nodes, if they caused the error.
        self.nodes: tuple[NodeReport, ...] = nodes


class LockTimeout(LockError, TimeoutError):
    """Raised if the lock was not acquired within `wait`. It was held, or no client won a majority. Also a TimeoutError.

    See the page Troubleshooting#timeout of the documentation for causes and remedies.

    >>> with lock:
    ...     lock.acquire(wait=0)
    Traceback (most recent call last):
    redlock.LockTimeout: lock:job: not acquired within ...
    """

    code: "ErrorCode" = "timeout"


class LockLost(LockError):
    """Raised if the lease ended without being released. `reason` is the cause.

    See the page Troubleshooting#lost-expired of the documentation, and its following sections for other reasons.

    >>> lease = client.lock("job", ttl=0.2, renew=False).acquire()
    >>> time.sleep(0.25)
    >>> try:
    ...     lease.ensure_held()
    ... except redlock.LockLost as error:
    ...     error.reason
    'expired'
    """

    code: "ErrorCode" = "lost"


class LockReleased(LockLost):
    """Raised if an operation needs a held lease, but its owner has released or detached this one. `reason` is None.

    See the page Troubleshooting#released of the documentation for causes and remedies.

    >>> with lock as lease:
    ...     pass
    >>> lease.extend()
    Traceback (most recent call last):
    redlock.LockReleased: lock:job: the lease was released and is no longer held
    """

    code: "ErrorCode" = "released"


class QuorumUnavailable(LockError, ConnectionError):
    """Raised if too many nodes failed for a quorum. `nodes` contains the error of each. Also a ConnectionError.

    See the page Troubleshooting#unavailable of the documentation for causes and remedies.

    >>> client = redlock.Redlock("redis://127.0.0.1:1")
    >>> try:
    ...     client.lock("job", wait=0).acquire()
    ... except redlock.QuorumUnavailable as error:
    ...     [node.state for node in error.nodes]
    ['fault']
    """

    code: "ErrorCode" = "unavailable"


class InvalidOption(LockError, ValueError):
    """Raised for an invalid value, before anything is sent. Also a ValueError.

    See the page Troubleshooting#invalid of the documentation for causes and remedies.

    >>> client.lock("job", ttl=0.01)
    Traceback (most recent call last):
    redlock.InvalidOption: ttl must be at least 0.1 s (got 0.01 s). ttl is in seconds...
    """

    code: "ErrorCode" = "invalid"


class Unsupported(LockError):
    """Raised if the server lacks a feature that an option needs, or if the key holds data of another type.

    See the page Troubleshooting#unsupported of the documentation for causes and remedies.

    >>> try:
    ...     client.lock("job", wait=0).acquire().release()
    ... except redlock.Unsupported as error:
    ...     print(error.resource)
    """

    code: "ErrorCode" = "unsupported"


class ClientClosed(LockError):
    """Raised if the client was closed, before or during the call.

    See the page Troubleshooting#closed of the documentation for causes and remedies.

    >>> client.close()
    >>> client.lock("job").acquire()
    Traceback (most recent call last):
    redlock.ClientClosed: lock:job: the client is closed
    """

    code: "ErrorCode" = "closed"


for _class in (
    LockError,
    LockTimeout,
    LockLost,
    LockReleased,
    QuorumUnavailable,
    InvalidOption,
    Unsupported,
    ClientClosed,
    NodeReport,
):
    _class.__module__ = "redlock"
