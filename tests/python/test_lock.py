"""The methods of locks, leases and clients: each once, sync and async, over memory:// and over a server."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import redlock

from tests.servers import Server
from tests.waiting import eventually

Call = Callable[..., Any]


def test_detach_ends_the_lease_and_keeps_the_key(
    redis_server: Server, name: str, call: Call
) -> None:
    with redlock.Redlock(redis_server.url) as client:
        with call(client.lock(name, ttl=2), "acquire") as lease:
            notified: list[redlock.LockLost] = []
            lease.on_lost(notified.append)
            assert lease.detach()
            assert not lease.held
            assert not lease.detach()
            assert repr(lease).endswith("detached>")
        call(lease, "release")
        assert redis_server.client.get(lease.key) == lease.token
        assert client.leases() == []
        # It is not renewed any more, and its end is not a loss.
        call(client.lock(name, wait=5), "acquire").release()
        assert notified == []


def test_cancelled_attach_does_not_affect_the_lease(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    def asked() -> int:
        return int(redis_server.client.info("commandstats")["cmdstat_evalsha"]["calls"])

    lease = redis_client.lock(name).acquire()

    async def main() -> None:
        before = asked()
        site = (main.__code__, 0)
        attaching: Any = redis_client.lock(name)._attach(site, lease.token)
        eventually(lambda: asked() > before)  # the reply arrives while the loop is blocked
        assert asyncio.isfuture(attaching)
        attaching.cancel()
        # Ordered after every command for it.
        await (await redis_client.lock(f"{name}-next").as_async().acquire()).release()

    asyncio.run(main())
    lease.extend()
    lease.release()


def test_leases_lists_held_leases_and_release_all_ends_them(
    client: redlock.Redlock, name: str, call: Call
) -> None:
    kept = [call(client.lock(f"{name}-{number}"), "acquire") for number in range(3)]
    assert set(client.leases()) == set(kept)
    call(kept[0], "release")
    assert set(client.leases()) == set(kept[1:])
    assert call(client, "release_all") == 2
    assert client.leases() == []
    assert not any(lease.held for lease in kept)


def test_redis_py_and_redlock_exclude_each_other(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    theirs = redis_server.client.lock(f"lock:{name}", timeout=5, blocking=False)
    with redis_client.lock(name).acquire():
        assert not theirs.acquire()
    assert theirs.acquire()
    assert redis_client.lock(name).try_acquire() is None
    theirs.release()


def test_attributes_of_a_lock_can_be_read(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    assert (lock.name, lock.ttl, lock.wait) == (name, 10.0, None)
    lock = redlock.lock(["a", "b"], ttl=0.5, wait=0)
    assert (lock.name, lock.ttl, lock.wait) == ("a, b", 0.5, 0.0)
    # A function chooses the name at each call.
    assert redlock.lock(lambda user: f"report:{user}").name == ""
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", redlock.__version__)


def test_repr_of_an_inspection_shows_its_fields(redis_client: redlock.Redlock, name: str) -> None:
    found = redis_client.lock(name).inspect()
    (url,) = redis_client.nodes
    assert repr(found) == (
        "Inspection(held=False, mode=None, taken=0, limit=1, remaining=None, label=None, nodes=["
        f"NodeInspection(url='{url}', key='lock:{name}', state='free', remaining=None, "
        "token=None, label=None, error=None)])"
    )
    with redis_client.lock(name):
        found = redis_client.lock(name).inspect()
    assert (
        f"Inspection(held=True, mode=None, taken=1, limit=1, remaining={found.remaining}, label=None, nodes=["
        in repr(found)
    )
    assert f"token='{found.nodes[0].token}'" in repr(found)
