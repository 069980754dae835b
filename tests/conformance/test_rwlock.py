"""Read/write locks: who excludes whom, turns between readers and writers, dead readers, and wrong options."""

from typing import Any

import pytest

from tests.waiting import eventually

from .conftest import World
from .remote import TTL, Lock, served


def sides(world: World, **options: object) -> tuple[Lock, Lock, Lock, Lock]:
    """The read and the write side of the client `one`, then those of `two`."""
    one, two, name = world.one, world.two, world.name
    return (one.read(name), one.write(name, **options), two.read(name), two.write(name, **options))


def test_readers_share_and_exclude_writers_and_mutexes(world: World) -> None:
    read, write, their_read, their_write = sides(world)
    first, second, third = read.acquire(), their_read.acquire(), their_read.acquire()
    for lock in (write, their_write, world.two.lock(world.name)):
        assert "readers hold it. The last one ends in at most " in lock.refusal()
    found = their_read.do("inspect")
    assert (found["held"], found["mode"], found["label"]) == (True, "read", None)
    assert found["remaining_ms"] > TTL / 2
    assert {node["token"] for node in found["nodes"]} == {None}
    first.extend(TTL * 2)
    for reader in (first, third):
        reader.release()
    write.is_refused()
    second.release()
    write.acquire()


def test_writers_and_mutexes_exclude_everyone(world: World) -> None:
    read, write, their_read, their_write = sides(world)
    for lock, mode in ((write, "write"), (world.one.lock(world.name), "write")):
        lease = lock.acquire()
        assert their_read.do("inspect")["mode"] == mode
        for other in (their_read, their_write, read, write, world.two.lock(world.name)):
            other.is_refused()
        assert "a writer holds it, and expires in" in their_read.refusal()
        lease.release()
    read.acquire().release()
    world.one.write(world.name, label="web-3").acquire(wait_ms=TTL)
    assert "a writer (web-3) holds it, and expires in" in their_read.refusal()
    # The age of an own lease.
    assert "a writer (web-3, " in read.refusal()


def test_a_released_side_wakes_the_other(world: World) -> None:
    read, write, their_read, _ = sides(world)
    reader = their_read.acquire()
    waiting = write.start()
    eventually(lambda: world.one.waiting == 1)
    assert not waiting.is_over, "a writer beside a reader"
    reader.release()
    writer = waiting.lease()
    readers = [read.start(), read.start(), their_read.start()]
    eventually(lambda: (world.one.waiting, world.two.waiting) == (2, 1))
    assert not any(each.is_over for each in readers), "a reader beside a writer"
    writer.release()
    leases = [each.lease() for each in readers]
    assert all(lease.held for lease in leases)


def test_a_crowd_is_served_and_writers_are_alone(world: World) -> None:
    locks = [*sides(world, fencing=True) * 4, world.one.lock(world.name, fencing=True)]
    for leases in served([lock.start() for lock in locks]):
        # Only writers and mutexes have a fencing token.
        assert len(leases) == 1 or not any(lease.fencing_token for lease in leases)
    assert locks[0].do("inspect")["taken"] == 0


def test_callers_of_one_client_read_together_and_in_order(world: World) -> None:
    read, write, _, _ = sides(world)
    writer = write.acquire()
    callers = []
    for lock in (read, read, read, write):
        callers.append(lock.start())
        eventually(lambda: world.one.waiting == len(callers))
    writer.release()
    readers = [each.lease() for each in callers[:3]]
    assert not callers[3].is_over, "a writer beside a reader"
    for reader in readers:
        reader.release()
    callers[3].lease().release()


def test_attach_continues_both_sides(world: World) -> None:
    read, write, their_read, their_write = sides(world)
    for first, second, other in ((read, their_read, write), (write, their_write, read)):
        lease = first.acquire()
        attached = second.attach(lease.token)
        lease.do("detach")
        attached.extend(TTL)
        other.is_refused()
        other.fails("attach", "lost", token=lease.token)
        attached.release()
        other.acquire(wait_ms=TTL).release()


def test_force_release_ends_all_readers(world: World) -> None:
    read, write, their_read, _ = sides(world)
    readers = [read.acquire(), their_read.acquire()]
    # By its name, as an operator does.
    assert world.two.lock(world.name).do("force_release")["deleted"]
    for reader in readers:
        reader.is_lost("missing", "quorum")
    write.acquire(wait_ms=TTL)


def test_a_writer_keeps_the_rules_of_a_mutex(world: World) -> None:
    read, write, _, their_write = sides(world, fencing=True)
    last = 0
    for lock in (write, world.two.lock(world.name, fencing=True), their_write, write):
        lease = lock.acquire(wait_ms=TTL)
        assert lease.fencing_token > last
        last = lease.fencing_token
        lease.extend(TTL)
        lease.release()
    world.two.write(world.name, min_hold_ms=TTL // 2).acquire(wait_ms=TTL).release()
    assert "because of min" in read.refusal()
    assert read.do("inspect")["mode"] is None


def turn(world: World) -> str:
    return f"{{lock:{world.name}}}:turn"


def await_turn(world: World, side: str) -> None:
    eventually(
        lambda: all((value or "").startswith(side) for value in world.command("GET", turn(world)))
    )


def a_caller_waited(world: World, side: str) -> None:
    """A caller waits until its turn is set, and leaves."""
    client = world.client()
    waiting = client.lock(world.name, side=side).start()
    await_turn(world, side[0])
    client.do("close")
    assert waiting.reply()["code"] == "closed"


def test_a_waiting_writer_comes_before_new_readers(on_all: World) -> None:
    read, _, _, their_write = sides(on_all)
    reader = read.acquire()
    waiting = their_write.start()
    await_turn(on_all, "w")
    assert "a waiting writer comes first for " in on_all.client().read(on_all.name).refusal()
    # The reader itself goes on.
    reader.extend(TTL * 2)
    reader.release()
    waiting.lease().release()
    # A minority may have refused the writer, because the release came later there.
    ended = [count == 0 for count in on_all.command("EXISTS", turn(on_all))]
    assert sum(ended) > len(ended) / 2
    read.acquire()


def test_waiting_readers_come_before_the_next_writer(on_all: World) -> None:
    read, write, _, _ = sides(on_all)
    writer = write.acquire()
    a_caller_waited(on_all, "read")
    # As if the waiting reader asked again just before the release.
    on_all.command("SET", turn(on_all), "r5000", "PX", 60_000)
    writer.release()
    assert "waiting readers come first for " in write.refusal()
    # Its turn lasts for its window, since the other side was found to have left.
    assert all(1 <= left <= 5000 for left in on_all.command("PTTL", turn(on_all)))
    # A mutex takes no turns.
    on_all.one.lock(on_all.name).acquire().release()
    read.acquire().release()


def test_a_turn_ends_soon_if_nothing_waits_any_more(on_all: World) -> None:
    read = on_all.one.read(on_all.name)
    reader = read.acquire()
    a_caller_waited(on_all, "write")
    on_all.command("SET", turn(on_all), "w200", "PX", 60_000)
    reader.release()
    # A waiting reader learns when the turn ends, and makes it end after its window.
    read.acquire(wait_ms=TTL).release()


@pytest.mark.parametrize(("value", "reader_is_next"), [("s60000", True), ("b60000", False)])
def test_the_turn_of_readers_ends_when_they_leave(
    on_all: World, value: str, reader_is_next: bool
) -> None:
    read, _, _, their_write = sides(on_all)
    on_all.command("SET", turn(on_all), value, "PX", 60_000)
    if reader_is_next:
        read.acquire().release()
    else:
        read.is_refused()
    their_write.acquire(wait_ms=TTL).release()
    ended = [count == 0 for count in on_all.command("EXISTS", turn(on_all))]
    assert sum(ended) > len(ended) / 2


def test_a_single_attempt_sets_no_turn(on_servers: World) -> None:
    read, write, their_read, their_write = sides(on_servers)
    for held, other in ((read, their_write), (write, their_read)):
        lease = held.acquire()
        other.is_refused()
        other.refusal()
        assert on_servers.command("EXISTS", turn(on_servers)) == [0]
        lease.release()
        assert on_servers.command("EXISTS", f"lock:{on_servers.name}") == [0]


def test_the_key_lives_as_long_as_the_longest_reader(on_servers: World) -> None:
    client, key = on_servers.one, f"lock:{on_servers.name}"

    def remaining() -> float:
        return float(on_servers.command("PTTL", key)[0])

    first = client.read(on_servers.name).acquire()
    second = client.read(on_servers.name, ttl_ms=TTL * 3).acquire()
    assert remaining() > TTL * 2
    second.release()
    assert remaining() <= TTL + 1000
    first.extend(TTL * 2)
    assert TTL < remaining() <= TTL * 2 + 1000
    first.release()
    assert remaining() == -2


def test_a_dead_reader_expires_beside_a_live_one(timed: World) -> None:
    client = timed.one
    dead = client.read("config", renew=False).acquire()
    live = client.read("config", ttl_ms=TTL * 10).acquire()
    client.do("advance", ms=TTL)
    dead.is_lost("expired")
    assert live.held
    client.write("config").is_refused()
    live.release()
    client.do("advance", ms=2000)
    client.write("config").acquire()


def test_the_keys_of_both_sides(world: World) -> None:
    for lock in sides(world)[:2]:
        keys = lock.do("keys")
        assert (keys["key"], keys["keys"]) == (f"lock:{world.name}", [f"lock:{world.name}"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"side": "read", "name": ["a", "b"]}, "a read/write lock has one name (got 2)"),
        ({"side": "write", "name": ["a", "b"]}, "a read/write lock has one name (got 2)"),
        ({"side": "read", "name": "a}b"}, "cannot have readers"),
        ({"name": "{a}:turn"}, "is reserved for the turn of another lock"),
        ({"name": "{a}:readers"}, "is reserved for the readers of another lock"),
    ],
)
def test_mistakes_are_refused_before_anything_is_sent(
    timed: World, options: dict[str, Any], text: str
) -> None:
    client = timed.client(nodes=["redis://127.0.0.1:1"])
    assert text in client.lock(**{"name": "config", **options}).mistake()
