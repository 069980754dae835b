"""What only Python has of locks and leases: cancelled futures, redis-py beside it, attributes and representations."""

import asyncio
import re
from typing import Any

import redlock

from tests.servers import Server
from tests.waiting import eventually


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
