"""The notification of a loss, by each change that someone else makes to the key."""

import pytest

from tests.waiting import eventually

from .conftest import World
from .remote import TTL

MINUTE = 60_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DEL {key}", "missing"),
        ("PEXPIRE {key} 0", "missing"),
        ("FLUSHALL", "missing"),
        ("SET {key} theirs", "taken"),
        ("SET {key} theirs PX 60000", "taken"),
        ("RENAME list {key}", "taken"),
    ],
)
def test_a_loss_is_noticed_at_once(on_servers: World, change: str, reason: str) -> None:
    on_servers.command("RPUSH", "list", "theirs")
    # Without notifications, it would be noticed by the renewal after 20 s at the earliest.
    lease = on_servers.one.lock(on_servers.name, ttl_ms=MINUTE).acquire()
    on_servers.command(*change.format(key=lease.keys[0]).split())
    assert lease.do("lost", timeout_ms=MINUTE // 4)["reason"] == reason
    lease.is_lost(reason)
    # The late release has not deleted the key of the next holder.
    assert on_servers.command("EXISTS", lease.keys[0]) == [int(reason == "taken")]
    on_servers.command("DEL", "list", lease.keys[0])


@pytest.mark.parametrize("change", ["DEL {key}", "PEXPIRE {key} 0", "FLUSHALL"])
def test_a_freed_key_wakes_the_waiting_caller(on_servers: World, change: str) -> None:
    key = f"lock:{on_servers.name}"
    on_servers.command("SET", key, "theirs", "PX", 10 * MINUTE)
    waiting = on_servers.one.lock(on_servers.name).start()
    eventually(lambda: on_servers.one.waiting == 1)
    on_servers.command(*change.format(key=key).split())
    waiting.lease().release()


def test_a_key_of_another_type_is_not_deleted(on_servers: World) -> None:
    names = [f"{on_servers.name}-{letter}" for letter in "abc"]
    lease = on_servers.one.lock(names, ttl_ms=MINUTE).acquire()
    first, *others = lease.keys
    on_servers.command("DEL", first)
    on_servers.command("RPUSH", first, "theirs")
    lease.is_lost("missing", "taken")
    # Its other keys are free again.
    on_servers.two.lock(names[1:]).acquire(wait_ms=TTL).release()
    assert on_servers.command("LLEN", first) == [1]
    assert on_servers.command("EXISTS", *others) == [0]
    on_servers.command("DEL", first)


def test_a_loss_on_a_quorum_is_noticed(world: World) -> None:
    lease = world.one.lock(world.name, ttl_ms=MINUTE).acquire()
    for server in world.servers[:3]:
        server.command("DEL", lease.keys[0])
    if not world.servers:
        world.two.lock(world.name).do("force_release")
    lease.is_lost("missing", "quorum")
