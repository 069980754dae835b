"""Fencing tokens: each later lease has a larger one, whichever client acquires it."""

from tests.waiting import eventually

from .conftest import World
from .remote import TTL


def test_tokens_increase_over_clients(world: World) -> None:
    last = 0
    for client in (world.one, world.two) * 5:
        lease = client.lock(world.name, fencing=True).acquire(wait_ms=TTL)
        assert last < lease.fencing_token < 1 << 53
        last = lease.fencing_token
        lease.extend(TTL)
        assert lease.do("fencing_token")["fencing_token"] == last
        lease.release()
        assert lease.do("fencing_token")["fencing_token"] == last


def test_tokens_follow_the_order_of_the_holders(world: World) -> None:
    lock = world.one.lock(world.name, fencing=True)
    lease = lock.acquire()
    waiting = [lock.start() for _ in range(5)]
    eventually(lambda: world.one.waiting == 5)
    for _ in waiting:
        lease.release()
        eventually(lambda: any(caller.is_over for caller in waiting))
        (over,) = [caller for caller in waiting if caller.is_over]
        waiting.remove(over)
        following = over.lease()
        assert following.fencing_token > lease.fencing_token
        lease = following


def test_several_names_share_one_token(on_servers: World) -> None:
    names = [f"{on_servers.name}-a", f"{on_servers.name}-b"]

    def token(of: str | list[str]) -> int:
        lease = on_servers.one.lock(of, fencing=True).acquire()
        lease.release()
        return lease.fencing_token

    before = token(names[1])
    both = token(names)
    assert both > before
    for name in names:
        assert on_servers.command("GET", f"{{lock:{name}}}:fence") == [str(both)]
    assert token(names[0]) > both


def test_the_token_is_missing_without_the_option(world: World) -> None:
    lease = world.one.lock(world.name).acquire()
    assert "fencing" in lease.fails("fencing_token", "invalid")["message"]


def test_an_attached_lease_has_no_token(world: World) -> None:
    lock = world.one.lock(world.name, fencing=True)
    lease = lock.acquire()
    attached = lock.attach(lease.token)
    lease.do("detach")
    error = attached.fails("fencing_token", "invalid")
    assert "send it with the token" in error["message"]
    attached.release()
    assert lock.acquire().fencing_token > lease.fencing_token


def test_the_name_must_have_the_slot_of_its_fence(world: World) -> None:
    assert "hash slot" in world.one.lock("a}b", fencing=True).mistake()
    world.one.lock("a}b").acquire().release()
    world.one.lock("a{tag}b", fencing=True).acquire().release()
