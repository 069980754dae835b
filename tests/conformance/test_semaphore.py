"""Semaphores: as many leases as permits, all permits of a lease or none, refusals, and wrong options."""

from typing import Any

import pytest

from tests.waiting import eventually

from .conftest import World
from .remote import TTL, Client, Lock, served


def test_as_many_leases_as_permits(world: World) -> None:
    pools = [client.semaphore(world.name, 3) for client in (world.one, world.two, world.one)]
    for _ in range(2):
        leases = [pool.acquire() for pool in pools]
        keys = sorted(key for lease in leases for key in lease.keys)
        assert keys == [f"{{lock:{world.name}}}#{at}" for at in range(3)]
        for pool in pools:
            pool.is_refused()
            assert "all 3 permits are taken, and the first" in pool.refusal()
        found = pools[1].do("inspect")
        assert (found["held"], found["taken"], found["limit"]) == (True, 3, 3)
        assert TTL / 2 < found["remaining_ms"] <= TTL
        leases.pop().release()
        found = pools[0].do("inspect")
        assert (found["held"], found["taken"], found["remaining_ms"]) == (False, 2, None)
        leases.append(pools[1].acquire())
        for lease in leases:
            lease.extend(TTL * 2)
            assert lease.remaining_ms > TTL
            lease.release()


def test_several_permits_are_acquired_all_or_none(world: World) -> None:
    def pool(client: Client, permits: int) -> Lock:
        return client.semaphore(world.name, 5, permits=permits)

    three = pool(world.one, 3).acquire()
    assert len(three.keys) == 3
    refusal = pool(world.two, 3).refusal()
    assert "only 2 of 5 permits are free, and 3 are needed, and enough" in refusal
    # The refused acquire has taken none.
    assert world.two.semaphore(world.name, 5).do("inspect")["taken"] == 3
    two = pool(world.two, 2).acquire()
    waiting = pool(world.one, 3).start()
    two.release()
    assert not waiting.is_over, "more permits than the limit"
    three.release()
    waiting.lease().release()


def test_a_freed_permit_wakes_a_waiting_caller(world: World) -> None:
    held = [client.semaphore(world.name, 2).acquire() for client in (world.one, world.two)]
    waiting = world.two.semaphore(world.name, 2).start()
    eventually(lambda: world.two.waiting == 1)
    assert not waiting.is_over, "more permits than the limit"
    held[0].release()
    waiting.lease().release()


def test_a_crowd_is_served_within_the_limit(world: World) -> None:
    """Callers of several permits wait for all of them at once, so they cannot wait for each other."""
    callers = [
        client.semaphore(world.name, 3, permits=permits).start()
        for client in (world.one, world.two)
        for permits in (1, 2, 3) * 4
    ]
    for leases in served(callers):
        assert sum(len(lease.keys) for lease in leases) <= 3
    assert world.one.semaphore(world.name, 3).do("inspect")["taken"] == 0


def test_a_refusal_names_the_holder_that_ends_first(world: World) -> None:
    for at, label in enumerate(("web-3", "web-4", "web-5")):
        world.one.semaphore(world.name, 3, label=label, ttl_ms=TTL * (at + 1)).acquire()
    # Within `wait`, an acquire reaches the nodes that were late.
    error = world.two.semaphore(world.name, 3).fails("acquire", "timeout", wait_ms=300)
    assert error["holder"] == "web-3"
    assert "all 3 permits are taken, and the first, held by web-3, expires in" in error["message"]
    pool = world.two.semaphore(world.name, 3, permits=2)
    error = pool.fails("acquire", "timeout", wait_ms=300)
    assert error["holder"] == "web-4"
    assert "and the last of enough, held by web-4, expires in" in error["message"]


def test_the_largest_limit_applies(world: World) -> None:
    for _ in range(4):
        world.one.semaphore(world.name, 4).acquire()
    world.two.semaphore(world.name, 2).is_refused()
    world.two.semaphore(world.name, 4).is_refused()
    fifth = world.two.semaphore(world.name, 5).try_acquire()
    assert fifth.keys == [f"{{lock:{world.name}}}#4"]


def test_min_hold_limits_a_rate(world: World) -> None:
    calls = {"limit": 2, "min_hold_ms": TTL // 2}
    for client in (world.one, world.two):
        client.lock(world.name, **calls).acquire().release()
    # Within `wait`, a release reaches the nodes that were late.
    error = world.one.lock(world.name, **calls).fails("acquire", "timeout", wait_ms=500)
    assert "all 2 permits are taken" in error["message"]
    assert "because of min" in error["message"]
    assert 0 < error["remaining_ms"] < TTL * 0.6
    found = world.two.semaphore(world.name, 2).do("inspect")
    assert (found["held"], found["taken"]) == (True, 2)


def test_lost_and_deleted_permits(world: World) -> None:
    lease = world.one.semaphore(world.name, 2).acquire()
    pool = world.two.semaphore(world.name, 2)
    assert pool.do("force_release")["deleted"]
    lease.is_lost("missing", "quorum")
    assert not pool.do("force_release")["deleted"]
    world.two.semaphore(world.name, 2, permits=2).acquire()


def test_one_lost_permit_loses_the_lease(on_servers: World) -> None:
    lease = on_servers.one.semaphore(on_servers.name, 4, permits=2).acquire()
    on_servers.command("DEL", lease.keys[1])
    lease.is_lost("missing")
    # The other permit is free again too.
    on_servers.two.semaphore(on_servers.name, 4, permits=4).acquire(wait_ms=TTL)


def test_a_permit_of_another_type_is_taken(on_all: World) -> None:
    foreign = f"{{lock:{on_all.name}}}#1"
    on_all.command("LPUSH", foreign, "theirs")
    pool = on_all.one.semaphore(on_all.name, 3)
    found = pool.do("inspect")
    assert (found["held"], found["taken"], found["label"]) == (False, 1, None)
    for node in found["nodes"]:
        state = "held" if node["key"] == foreign else "free"
        assert (node["state"], node["token"], node["label"]) == (state, None, None)
    leases = [pool.acquire(), pool.acquire()]
    assert all(lease.keys != [foreign] for lease in leases)
    assert "all 3 permits are taken" in pool.refusal()
    found = pool.do("inspect")
    assert (found["held"], found["taken"]) == (True, 3)
    assert 0 < found["remaining_ms"] <= TTL
    for lease in leases:
        lease.release()
    assert set(on_all.command("TYPE", foreign)) == {"list"}
    # The name of a lock with such a key is wrong.
    on_all.command("LPUSH", f"lock:{on_all.name}", "theirs")
    on_all.one.lock(on_all.name).fails("inspect", "unsupported")


def test_a_permit_expires(timed: World) -> None:
    client = timed.one
    lease = client.semaphore("pool", 2, permits=2, renew=False).acquire()
    client.do("jump", ms=TTL * 2)
    lease.is_lost("expired")
    client.semaphore("pool", 2, permits=2).acquire()


def test_the_keys_of_a_semaphore(world: World) -> None:
    pool = world.one.semaphore(world.name, 2)
    keys = pool.do("keys")
    assert keys["key"] == f"lock:{world.name}"
    assert keys["keys"] == [f"{{lock:{world.name}}}#{at}" for at in range(2)]
    assert world.one.semaphore("{a}:b", 1).do("keys")["keys"] == ["lock:{a}:b#0"]
    pool.acquire()
    # A lock of the same name is independent.
    world.one.lock(world.name).acquire()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limit": 0}, "limit must be 1 to 1000 (got 0)"),
        ({"limit": 1001}, "limit must be 1 to 1000 (got 1001)"),
        ({"limit": 3, "permits": 0}, "permits must be 1 to the limit of 3 (got 0)"),
        ({"limit": 3, "permits": 4}, "permits must be 1 to the limit of 3 (got 4)"),
        ({"name": ["a", "b"], "limit": 3}, "a semaphore has one name (got 2)"),
        ({"name": "a}b", "limit": 3}, "cannot have permits"),
        ({"name": "{a}#3"}, "is reserved for the permits of a semaphore"),
    ],
)
def test_mistakes_are_refused_before_anything_is_sent(
    timed: World, options: dict[str, Any], text: str
) -> None:
    client = timed.client(nodes=["redis://127.0.0.1:1"])
    assert text in client.lock(**{"name": "pool", **options}).mistake()


def test_permits_cannot_be_attached(timed: World) -> None:
    pool = timed.one.semaphore("pool", 3)
    pool.fails("attach", "unsupported", token="0123456789abcdef" * 2)
