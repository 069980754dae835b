"""What can go wrong, one class per cause; `code` is the same word in every language."""

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from redlock.types import ErrorCode, LossReason, NodeState


class NodeReport:
    """The result of one node, with its `url` without password, its `state`, and its `error` or None.

    The state is `granted`, `held`, `kept` (released, and stays for `min_hold`), `missing` (no key to extend or
    release), `free`, `fault`, or `pending` (no reply before the other nodes had decided or `wait` was over).

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
    """The base of all errors of redlock. `code` tells them apart without the classes; times are seconds.

    One of this class itself has the code `internal`: a bug of redlock.

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
        reason: "LossReason | None" = None,
        nodes: tuple[NodeReport, ...] = (),
    ) -> None:
        super().__init__(message)
        #: The Redis key it is about.
        self.resource: str | None = resource
        #: Seconds for which the acquire had waited.
        self.waited: float | None = waited
        #: Seconds left of the holder's lease, where a node told it.
        self.remaining: float | None = remaining
        #: Why a lease was lost: expired, taken, missing, quorum, max_hold, forked, revoked, closed, internal.
        self.reason: LossReason | None = reason
        #: What each node had to say, where the nodes are the cause.
        self.nodes: tuple[NodeReport, ...] = nodes


class LockTimeout(LockError, TimeoutError):
    """Not acquired within `wait`, because another holder has it or no client won a majority. Also a TimeoutError.

    See the page Troubleshooting#timeout of the documentation for causes and remedies.

    >>> with lock:
    ...     lock.acquire(wait=0)
    Traceback (most recent call last):
    redlock.LockTimeout: lock:job: not acquired within ...
    """

    code = "timeout"


class LockLost(LockError):
    """The lease ended without our release; `reason` says why.

    See the page Troubleshooting#lost-expired of the documentation, and its following sections for other reasons.

    >>> lease = client.lock("job", ttl=0.2, renew=False).acquire()
    >>> time.sleep(0.25)
    >>> try:
    ...     lease.ensure_held()
    ... except redlock.LockLost as error:
    ...     error.reason
    'expired'
    """

    code = "lost"


class LockReleased(LockLost):
    """The operation needs a held lease, and this one was released or detached by its owner. `reason` is None.

    See the page Troubleshooting#released of the documentation for causes and remedies.

    >>> with lock as lease:
    ...     pass
    >>> lease.extend()
    Traceback (most recent call last):
    redlock.LockReleased: lock:job: the lease was released and is no longer held
    """

    code = "released"


class QuorumUnavailable(LockError, ConnectionError):
    """Too many nodes are faults for a quorum to be possible; `nodes` has each one's own error. Also a ConnectionError.

    See the page Troubleshooting#unavailable of the documentation for causes and remedies.

    >>> client = redlock.Redlock("redis://127.0.0.1:1")
    >>> try:
    ...     client.lock("job", wait=0).acquire()
    ... except redlock.QuorumUnavailable as error:
    ...     [node.state for node in error.nodes]
    ['fault']
    """

    code = "unavailable"


class InvalidOption(LockError, ValueError):
    """A value broke a rule, which the message names; nothing was sent. Also a ValueError.

    See the page Troubleshooting#invalid of the documentation for causes and remedies.

    >>> client.lock("job", ttl=0.01)
    Traceback (most recent call last):
    redlock.InvalidOption: ttl must be at least 0.1 s (got 0.01 s). ttl is in seconds...
    """

    code = "invalid"


class Unsupported(LockError):
    """A server lacks a feature that an option needs, or the key holds data of another type.

    See the page Troubleshooting#unsupported of the documentation for causes and remedies.

    >>> try:
    ...     client.lock("job", wait=0).acquire().release()
    ... except redlock.Unsupported as error:
    ...     print(error.resource)
    """

    code = "unsupported"


class ClientClosed(LockError):
    """The client was closed, before or while it was asked.

    See the page Troubleshooting#closed of the documentation for causes and remedies.

    >>> client.close()
    >>> client.lock("job").acquire()
    Traceback (most recent call last):
    redlock.ClientClosed: lock:job: the client is closed
    """

    code = "closed"


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
