"""What can go wrong, one class per cause; `code` is the same word in every language."""


class NodeReport:
    """What one node had to say: its url without password, its state (granted, held, fault), its error."""

    __slots__ = ("error", "state", "url")

    def __init__(self, url: str, state: str, error: str | None = None) -> None:
        self.url = url
        self.state = state
        self.error = error

    def _values(self) -> tuple[str, str, str | None]:
        return (self.url, self.state, self.error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeReport) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"NodeReport(url={self.url!r}, state={self.state!r}, error={self.error!r})"


class LockError(Exception):
    """The base of all errors of redlock."""

    code = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        resource: str | None = None,
        waited: float | None = None,
        remaining: float | None = None,
        reason: str | None = None,
        nodes: tuple[NodeReport, ...] = (),
    ) -> None:
        super().__init__(message)
        #: The Redis key it is about.
        self.resource = resource
        #: Seconds for which the acquire had waited.
        self.waited = waited
        #: Seconds left of the holder's lease, where a node told it.
        self.remaining = remaining
        #: Why a lease was lost: expired, taken, missing, quorum, max_hold, forked, released, closed.
        self.reason = reason
        #: What each node had to say, where the nodes are the cause.
        self.nodes = nodes


class LockTimeout(LockError, TimeoutError):
    """Not acquired within `wait`: somebody else holds it, or the votes stayed split."""

    code = "timeout"


class LockLost(LockError):
    """The lease ended without our release; `reason` says why."""

    code = "lost"


class QuorumUnavailable(LockError, ConnectionError):
    """Too many nodes are faults for a quorum to be possible; `nodes` has each one's own error."""

    code = "unavailable"


class InvalidOption(LockError, ValueError):
    """A value broke a rule, which the message names; nothing was sent."""

    code = "invalid"


class ClientClosed(LockError):
    """The client was closed."""

    code = "closed"


for _class in (
    LockError,
    LockTimeout,
    LockLost,
    QuorumUnavailable,
    InvalidOption,
    ClientClosed,
    NodeReport,
):
    _class.__module__ = "redlock"
