"""Clients, locks and leases in the process of an agent. A test reads the same for every language."""

from collections.abc import Iterator, Sequence

from tests.cross.agents import Agent, Reply
from tests.waiting import eventually

#: Milliseconds. Nothing that is held expires while a busy machine runs a test.
TTL = 20_000


class Pending:
    """A command whose reply has not been awaited."""

    def __init__(self, agent: "Conversation", number: int) -> None:
        self._agent, self._number = agent, number

    @property
    def is_over(self) -> bool:
        return self._agent.has_reply(self._number)

    def reply(self) -> Reply:
        return self._agent.reply(self._number)


class Conversation:
    """The commands to one agent. They run concurrently, and each reply has the number of its command."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._last = 0
        self._replies: dict[int, Reply] = {}

    def begin(self, do: str, **fields: object) -> Pending:
        self._last += 1
        self.agent.send(do, id=self._last, **fields)
        return Pending(self, self._last)

    def has_reply(self, number: int) -> bool:
        for reply in self.agent.received():
            self._replies[reply["id"]] = reply
        return number in self._replies

    def reply(self, number: int) -> Reply:
        while number not in self._replies:
            reply = self.agent.receive()
            self._replies[reply["id"]] = reply
        return self._replies.pop(number)


class Subject:
    """Something in the agent that commands are about: a client, a lock or a lease."""

    def __init__(self, conversation: Conversation, fields: Reply) -> None:
        self._conversation, self._fields = conversation, fields

    def begin(self, do: str, **fields: object) -> Pending:
        return self._conversation.begin(do, **self._fields, **fields)

    def do(self, verb: str, **fields: object) -> Reply:
        """Returns the reply to a command that succeeds."""
        reply = self.begin(verb, **fields).reply()
        assert reply["ok"], reply
        return reply

    def fails(self, verb: str, code: str, **fields: object) -> Reply:
        """Returns the error of a command that fails with this code."""
        reply = self.begin(verb, **fields).reply()
        assert not reply["ok"], f"{verb} succeeded"
        assert reply["code"] == code, reply
        return reply


class Lease(Subject):
    _number = 0

    def __init__(self, conversation: Conversation, fields: Reply, reply: Reply) -> None:
        super().__init__(conversation, fields)
        self.token: str = reply["token"]
        self.keys: list[str] = reply["keys"]
        self.fencing_token: int = reply.get("fencing_token", 0)

    @property
    def held(self) -> bool:
        return bool(self.do("held")["held"])

    @property
    def remaining_ms(self) -> float:
        return float(self.do("held")["remaining_ms"])

    def extend(self, ttl_ms: int) -> None:
        self.do("extend", ttl_ms=ttl_ms)

    def release(self) -> None:
        self.do("release")

    def is_lost(self, *reasons: str) -> None:
        """Waits for the loss, which must have one of these reasons. Every later use raises it."""
        assert self.do("lost", timeout_ms=60_000)["reason"] in reasons
        for verb in ("ensure_held", "release"):
            assert self.fails(verb, "lost")["reason"] in reasons
        assert self.fails("extend", "lost", ttl_ms=TTL)["reason"] in reasons
        state = self.do("held")
        assert (state["held"], state["remaining_ms"]) == (False, 0)

    @classmethod
    def name(cls) -> str:
        cls._number += 1
        return f"lease-{cls._number}"


class Acquiring(Pending):
    """An acquire that waits, or a run of `once` or `lead`."""

    def __init__(self, pending: Pending, client: Reply, lease: str) -> None:
        super().__init__(pending._agent, pending._number)
        self._fields = {**client, "lease": lease}

    def lease(self) -> Lease:
        reply = self.reply()
        assert reply["ok"], reply
        return Lease(self._agent, self._fields, reply)

    def has_begun(self) -> Reply:
        reply = self.reply()
        assert (reply["ok"], reply.get("begun")) == (True, True), reply
        return reply

    def next(self, do: str = "next", **fields: object) -> "Acquiring":
        """Another event of a run."""
        pending = self._agent.begin(do, **self._fields, **fields)
        return Acquiring(pending, self._fields, self._fields["lease"])

    def end(self, how: str = "returns") -> "Acquiring":
        """Ends the body of a run, which `returns` or `fails`."""
        return self.next("end", how=how)


def served(waiting: list[Acquiring]) -> Iterator[list[Lease]]:
    """Yields the leases that waiting callers hold at the same time, and then releases them, until all are served."""
    left = list(waiting)
    while left:
        granted = eventually(lambda: [each for each in left if each.is_over])
        leases = [each.lease() for each in granted]
        left[:] = [each for each in left if each not in granted]
        yield leases
        for lease in leases:
            lease.release()


class Lock(Subject):
    def __init__(self, client: "Client", fields: Reply) -> None:
        super().__init__(client._conversation, client._fields | fields)
        self._client = client

    def start(self, verb: str = "acquire", **fields: object) -> Acquiring:
        """Begins an acquire without awaiting it. It waits forever, if `fields` has no other `wait_ms`."""
        lease = Lease.name()
        if verb == "acquire":
            fields = {"wait_ms": None, **fields}
        return Acquiring(self.begin(verb, lease=lease, **fields), self._client._fields, lease)

    def acquire(self, wait_ms: int | None = 0) -> Lease:
        return self.start(wait_ms=wait_ms).lease()

    def try_acquire(self) -> Lease:
        return self.start("try").lease()

    def attach(self, token: str) -> Lease:
        return self.start("attach", token=token).lease()

    def is_refused(self) -> None:
        self.fails("try", "held")

    def refusal(self, wait_ms: int = 0) -> str:
        """Returns the text of a refused acquire."""
        message: str = self.fails("acquire", "timeout", wait_ms=wait_ms)["message"]
        return message

    def mistake(self) -> str:
        """Returns the text of an acquire with wrong options."""
        message: str = self.fails("acquire", "invalid", wait_ms=0)["message"]
        return message


class Client(Subject):
    """A client of the agent. Its nodes are those of the agent, unless others are named."""

    def __init__(self, conversation: Conversation, key: str, **options: object) -> None:
        super().__init__(conversation, {"client": key})
        self.do("client", **options)

    def lock(self, name: str | Sequence[str], **options: object) -> Lock:
        return Lock(self, {"name": name, "ttl_ms": TTL, **options})

    def semaphore(self, name: str, limit: int, **options: object) -> Lock:
        return self.lock(name, limit=limit, **options)

    def read(self, name: str, **options: object) -> Lock:
        return self.lock(name, side="read", **options)

    def write(self, name: str, **options: object) -> Lock:
        return self.lock(name, side="write", **options)

    def hold(self, name: str, ttl_ms: int = TTL) -> Lease:
        """Acquires a lock as another holder than this test client."""
        return Lock(self, {"name": name, "ttl_ms": ttl_ms}).start("hold").lease()

    @property
    def waiting(self) -> int:
        return int(self.do("stats")["waiting"])
