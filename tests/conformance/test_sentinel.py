"""A service under Sentinel with only its URL. Clients find it and follow it to its next primary."""

from contextlib import ExitStack

from tests.cross.agents import Agent
from tests.cross.sentinel import Service

from .conftest import IMPLEMENTATIONS
from .remote import TTL, Client, Conversation


def test_leases_follow_a_failover() -> None:
    with ExitStack() as stack:
        service = stack.enter_context(Service())
        agents = [
            stack.enter_context(Agent(language, [service.url()])) for language in IMPLEMENTATIONS
        ]
        conversations = [Conversation(agent) for agent in agents]
        locks = [Client(each, "one").lock(each.agent.language) for each in conversations]
        leases = [lock.acquire(wait_ms=TTL) for lock in locks]
        for lease in leases:
            assert service.primary.get(lease.keys[0]) == lease.token
            service.replicated(lease.keys[0])
        service.fail_over()
        service.switched()
        new = service.promoted()
        for lock, lease in zip(locks, leases, strict=True):
            lease.extend(TTL * 3)
            assert new.get(lease.keys[0]) == lease.token
            assert new.command("PTTL", lease.keys[0]) > TTL * 2
            lease.release()
            assert new.get(lease.keys[0]) is None
            assert new.get(lock.acquire(wait_ms=TTL).keys[0]) is not None
        for each in conversations:
            stranger = Client(each, "stranger", nodes=[f"{service.url()}-2"])
            message = stranger.lock("job").fails("acquire", "invalid", wait_ms=0)["message"]
            assert "do not know the service service-2" in message
