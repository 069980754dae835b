"""Locks and leases: acquire, refusal, wait, extend, release, several names, attach, min_hold, the end of a client."""

import pytest

from tests.waiting import eventually

from .conftest import World
from .remote import TTL


def test_one_holder_at_a_time(world: World) -> None:
    lock, theirs = world.one.lock(world.name), world.two.lock(world.name)
    lease = lock.acquire()
    assert lease.held
    assert TTL / 2 < lease.remaining_ms <= TTL
    assert lease.keys == [f"lock:{world.name}"]
    lock.is_refused()
    theirs.is_refused()
    lease.release()
    state = lease.do("held")
    assert (state["held"], state["remaining_ms"]) == (False, 0)
    other = theirs.try_acquire()
    assert other.token != lease.token
    # A second release does nothing.
    lease.release()
    assert other.held
    lock.is_refused()


def test_a_released_lease_is_not_held(world: World) -> None:
    lease = world.one.lock(world.name).acquire()
    lease.release()
    error = lease.fails("ensure_held", "released")
    assert error["resource"] == f"lock:{world.name}"
    assert error["reason"] is None
    lease.fails("extend", "released", ttl_ms=TTL)


def test_the_key_is_the_prefix_and_the_name(world: World) -> None:
    lock = world.client(key_prefix="app:").lock(world.name)
    assert lock.do("keys")["key"] == f"app:{world.name}"
    assert lock.acquire().keys == [f"app:{world.name}"]
    world.one.lock(world.name).acquire()


def test_the_value_of_the_key_is_the_token(on_servers: World) -> None:
    lease = on_servers.one.lock(on_servers.name).acquire()
    assert on_servers.command("GET", lease.keys[0]) == [lease.token]
    assert TTL / 2 < on_servers.command("PTTL", lease.keys[0])[0] <= TTL
    assert len(lease.token) == 32
    assert set(lease.token) <= set("0123456789abcdef")
    lease.release()
    assert on_servers.command("EXISTS", lease.keys[0]) == [0]


@pytest.mark.parametrize("wait_ms", [0, 300])
def test_an_acquire_ends_after_its_wait(world: World, wait_ms: int) -> None:
    world.one.lock(world.name).acquire()
    error = world.two.lock(world.name).fails("acquire", "timeout", wait_ms=wait_ms)
    assert error["resource"] == f"lock:{world.name}"
    assert error["waited_ms"] >= wait_ms
    assert 0 < error["remaining_ms"] <= TTL
    assert f"lock:{world.name}: not acquired within" in error["message"]
    assert "it is already held, and expires in" in error["message"]
    assert (error["reason"], error["holder"], error["nodes"]) == (None, None, [])


@pytest.mark.parametrize("of_one_client", [False, True])
def test_a_release_lets_the_waiting_caller_acquire(world: World, of_one_client: bool) -> None:
    waiter = world.one if of_one_client else world.two
    first = world.one.lock(world.name).acquire()
    waiting = waiter.lock(world.name).start()
    eventually(lambda: waiter.waiting == 1)
    assert not waiting.is_over, "two holders"
    first.release()
    second = waiting.lease()
    assert second.token != first.token
    assert second.held


def test_a_client_serves_its_callers_in_order(world: World) -> None:
    first = world.one.lock(world.name).acquire()
    callers = []
    for _ in range(5):
        callers.append(world.one.lock(world.name).start())
        eventually(lambda: world.one.waiting == len(callers))
    # A single attempt does not overtake them.
    world.one.lock(world.name).is_refused()
    for caller in callers:
        assert not any(later.is_over for later in callers[callers.index(caller) :])
        first.release()
        first = caller.lease()


def test_an_extension_never_shortens(world: World) -> None:
    lease = world.one.lock(world.name, renew=False).acquire()
    lease.extend(TTL * 2)
    assert TTL * 1.5 < lease.remaining_ms <= TTL * 2
    lease.extend(TTL // 2)
    assert lease.remaining_ms > TTL * 1.5
    error = lease.fails("extend", "invalid", ttl_ms=50)
    assert "ttl" in error["message"]
    assert lease.held


def test_several_names_are_one_lease(world: World) -> None:
    a, b, c = (f"{world.name}-{letter}" for letter in "abc")
    lease = world.one.lock([a, b]).acquire()
    assert lease.keys == [f"lock:{a}", f"lock:{b}"]
    world.two.lock([b, c]).is_refused()
    # The refused acquire has not kept the other name.
    world.two.lock(c).acquire().release()
    world.two.lock(a).is_refused()
    lease.release()
    second = world.two.lock([b, c]).acquire()
    world.one.lock([a, b]).is_refused()
    second.release()


def test_attach_continues_a_lease(world: World) -> None:
    lock, theirs = world.one.lock(world.name), world.two.lock(world.name)
    first = lock.acquire()
    assert first.do("detach")["held"]
    assert not first.do("detach")["held"]
    assert not first.held
    second = theirs.attach(first.token)
    assert second.token == first.token
    second.extend(TTL)
    lock.is_refused()
    error = lock.fails("attach", "lost", token="0123456789abcdef" * 2)
    assert error["reason"] in ("taken", "quorum")
    assert "not attached, because no lease with this token is held" in error["message"]
    # The end of a detached lease is nothing to report, and deletes no key.
    first.release()
    theirs.is_refused()
    second.release()
    error = lock.fails("attach", "lost", token=first.token)
    assert error["reason"] in ("missing", "quorum")
    # This client has not lost it.
    assert "not attached" in error["message"]
    assert " ago" not in error["message"]
    lock.acquire().release()


def test_a_release_ends_the_attached_lease_of_another_client(world: World) -> None:
    first = world.one.lock(world.name).acquire()
    second = world.two.lock(world.name).attach(first.token)
    first.release()
    # Over several nodes, a check may see the release on some of them only.
    second.is_lost("missing", "quorum")


def test_inspect_reports_the_state_and_the_holder(world: World) -> None:
    lock, key = world.one.lock(world.name), f"lock:{world.name}"
    free = lock.do("inspect")
    assert (free["held"], free["remaining_ms"], free["label"]) == (False, None, None)
    assert {node["state"] for node in free["nodes"]} == {"free"}
    lease = lock.acquire()
    held = world.two.lock(world.name).do("inspect")
    assert (held["held"], held["taken"], held["limit"], held["mode"]) == (True, 1, 1, None)
    assert TTL / 2 < held["remaining_ms"] <= TTL
    holding = [node for node in held["nodes"] if node["state"] == "held"]
    assert len(holding) > len(held["nodes"]) / 2
    assert {(node["key"], node["token"]) for node in holding} == {(key, lease.token[:8])}


def test_force_release_takes_the_lock_from_its_holder(world: World) -> None:
    lease = world.one.lock(world.name).acquire()
    theirs = world.two.lock(world.name)
    assert theirs.do("force_release")["deleted"]
    lease.is_lost("missing", "quorum")
    assert not theirs.do("force_release")["deleted"]
    theirs.acquire().release()


def test_release_all_ends_the_leases_of_the_client(world: World) -> None:
    leases = [world.one.lock(f"{world.name}-{at}").acquire() for at in range(3)]
    theirs = world.two.lock(f"{world.name}-theirs").acquire()
    tokens = sorted(lease.token for lease in leases)
    assert world.one.do("list_leases")["tokens"] == tokens
    leases[0].release()
    assert world.one.do("release_all")["released"] == 2
    assert world.one.do("list_leases")["tokens"] == []
    assert not any(lease.held for lease in leases)
    assert theirs.held


def test_close_ends_leases_and_waits_and_keeps_the_keys(world: World) -> None:
    lease = world.one.lock(world.name).acquire()
    theirs = world.two.lock(f"{world.name}-theirs").acquire()
    waiting = [world.one.lock(name).start() for name in (world.name, f"{world.name}-theirs")]
    eventually(lambda: world.one.waiting == 2)
    world.one.do("close")
    for caller in waiting:
        assert caller.reply()["code"] == "closed"
    assert lease.do("lost", timeout_ms=60_000)["reason"] == "closed"
    for verb in ("acquire", "try", "attach", "inspect", "force_release"):
        error = world.one.lock("later").fails(verb, "closed", wait_ms=0, token="0" * 32)
        assert error["resource"] == "lock:later"
    world.two.lock(world.name).is_refused()
    assert theirs.held
    # A release of the lost lease still deletes its keys.
    lease.fails("release", "lost")
    world.two.lock(world.name).acquire(wait_ms=TTL // 2)


def test_min_hold_keeps_the_key_without_a_holder(world: World) -> None:
    lock, theirs = world.one.lock(world.name, min_hold_ms=TTL // 2), world.two.lock(world.name)
    lease = lock.acquire()
    attached = theirs.attach(lease.token)
    lease.extend(TTL * 2)
    lease.release()
    assert not lease.held
    attached.is_lost("missing", "quorum")
    assert "it was released, but its key stays for" in theirs.refusal()
    found = theirs.do("inspect")
    assert not found["held"]
    assert 0 < found["remaining_ms"] < TTL * 0.6
    kept = [node for node in found["nodes"] if node["state"] == "kept"]
    assert len(kept) > len(found["nodes"]) / 2
    assert {node["token"] for node in kept} == {lease.token[:8]}
    theirs.fails("attach", "lost", token=lease.token)
    assert "released" in theirs.fails("attach", "invalid", token=f"kept:{lease.token}")["message"]
    assert theirs.do("force_release")["deleted"]
    theirs.acquire().release()


def test_unreachable_nodes_are_unavailable(world: World) -> None:
    client = world.client(nodes=["redis://:secret@127.0.0.1:1"])
    error = client.lock(world.name).fails("acquire", "unavailable", wait_ms=0)
    assert error["resource"] == f"lock:{world.name}"
    (node,) = error["nodes"]
    assert (node["url"], node["state"]) == ("redis://127.0.0.1:1", "fault")
    assert f"{node['url']}: {node['error']}" in error["message"]
    assert "Connection refused" in node["error"]
    assert "secret" not in str(error)


@pytest.mark.parametrize("verb", ["acquire", "try"])
def test_a_script_flush_has_no_effect(on_servers: World, verb: str) -> None:
    lock = on_servers.one.lock(on_servers.name)
    for _ in range(2):
        on_servers.command("SCRIPT", "FLUSH")
        lease = lock.start(verb).lease()
        on_servers.command("SCRIPT", "FLUSH")
        lease.extend(TTL * 2)
        on_servers.command("SCRIPT", "FLUSH")
        lease.release()
        assert on_servers.command("EXISTS", lease.keys[0]) == [0]


def test_stats_count_every_outcome(world: World) -> None:
    lock = world.one.lock(world.name)
    lease = lock.acquire()
    lock.is_refused()
    lock.fails("acquire", "timeout", wait_ms=100)
    counts = world.one.do("stats")
    assert (counts["held"], counts["waiting"]) == (1, 0)
    lease.release()
    lost = lock.acquire()
    world.two.lock(world.name).do("force_release")
    lost.is_lost("missing", "quorum")
    counts = world.one.do("stats")
    expected = {"granted": 2, "refused": 1, "timed_out": 1, "unavailable": 0, "released": 1}
    assert {field: counts[field] for field in expected} == expected
    assert (counts["held"], counts["waiting"], len(counts["lost"])) == (0, 0, 9)
    assert counts["lost"]["missing"] + counts["lost"]["quorum"] == 1
    assert counts["time_waited_ms"] >= 100
    # It was held during that wait.
    assert counts["time_held_ms"] >= 100
    world.one.do("close")
    assert world.one.do("stats")["granted"] == 2
