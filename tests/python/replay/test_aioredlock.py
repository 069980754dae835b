"""aioredlock 0.7: tests/acceptance/test_aioredlock.py, tests/ut/test_algorithm.py and test_lock.py."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually

from .cases import Source

Call = Callable[..., Any]
WHOLE, ALGORITHM = "tests/acceptance/test_aioredlock.py", "tests/ut/test_algorithm.py"
ITS_LOCK = "tests/ut/test_lock.py"
THEIRS = Source("aioredlock", {WHOLE: 7, ALGORITHM: 20, ITS_LOCK: 1})
asks = THEIRS.asks


def clients(stack: ExitStack, servers: list[Server]) -> list[redlock.Redlock]:
    """Creates two independent clients."""
    urls = [server.url for server in servers]
    options: dict[str, Any] = {"key_prefix": "", "restart_guard": 0}
    return [stack.enter_context(redlock.Redlock(urls, **options)) for _ in range(2)]


@pytest.fixture
def pair(redis_server: Server) -> Any:
    with ExitStack() as stack:
        yield clients(stack, [redis_server])


@pytest.fixture
def pair_of_two(redis_server: Server) -> Any:
    """Yields a pair of clients over two servers, both of which must grant."""
    with ExitStack() as stack:
        second = Server()
        stack.callback(second.close)
        yield clients(stack, [redis_server, second])


def simple(client: redlock.Redlock, name: str, call: Call) -> None:
    lock = client.lock(name)
    assert call(lock, "inspect").held is False
    lease = call(lock, "acquire")
    assert (lease.held, call(lock, "inspect").held) == (True, True)
    call(lease, "extend")
    assert (lease.held, call(lock, "inspect").held) == (True, True)
    call(lease, "release")
    assert (lease.held, call(lock, "inspect").held) == (False, False)


def apart(client: redlock.Redlock, name: str, call: Call) -> None:
    locks = [client.lock(f"{name}-{which}") for which in (1, 2)]
    first = call(locks[0], "acquire")
    assert [call(lock, "inspect").held for lock in locks] == [True, False]
    second = call(locks[1], "acquire")
    assert [call(lock, "inspect").held for lock in locks] == [True, True]
    call(first, "release")
    assert [call(lock, "inspect").held for lock in locks] == [False, True]
    call(second, "release")
    assert [call(lock, "inspect").held for lock in locks] == [False, False]


def together(clients: list[redlock.Redlock], name: str, call: Call) -> None:
    lease = call(clients[0].lock(name), "acquire")
    with pytest.raises(redlock.LockTimeout):
        call(clients[1].lock(name), "acquire", wait=0.2)
    assert call(clients[1].lock(name), "inspect").held is True
    call(lease, "release")
    assert call(clients[1].lock(name), "inspect").held is False


@asks("writes", WHOLE)
def test_simple_aioredlock_one_instance(pair: Any, name: str, call: Call) -> None:
    simple(pair[0], name, call)


@asks("names_apart", WHOLE)
def test_aioredlock_two_locks_on_different_resources_one_instance(
    pair: Any, name: str, call: Call
) -> None:
    apart(pair[0], name, call)


@asks("excludes", WHOLE)
def test_aioredlock_two_locks_on_same_resource_one_instance(
    pair: Any, name: str, call: Call
) -> None:
    together(pair, name, call)


@asks("writes", WHOLE)
def test_simple_aioredlock_two_instances(pair_of_two: Any, name: str, call: Call) -> None:
    simple(pair_of_two[0], name, call)


@asks("names_apart", WHOLE)
def test_aioredlock_two_locks_on_different_resources_two_instances(
    pair_of_two: Any, name: str, call: Call
) -> None:
    apart(pair_of_two[0], name, call)


@asks("excludes", WHOLE)
def test_aioredlock_two_locks_on_same_resource_two_instances(
    pair_of_two: Any, name: str, call: Call
) -> None:
    together(pair_of_two, name, call)


@asks("minority_held", WHOLE)
def test_aioredlock_lock_with_first_failed_try_two_instances(
    pair_of_two: Any, r: Any, name: str, call: Call
) -> None:
    r.set(name, "garbage")
    timer = threading.Timer(0.3, r.delete, [name])
    timer.start()
    began = time.monotonic()
    lease = call(pair_of_two[0].lock(name), "acquire", wait=30)
    assert time.monotonic() - began > 0.2
    timer.join()
    assert lease.held
    call(lease, "release")


@asks("bad_times", ALGORITHM)
@pytest.mark.parametrize("option", ["ttl", "wait", "max_hold", "node_timeout"])
def test_validator(ours: redlock.Redlock, name: str, option: str) -> None:
    options: Any = {option: -1}
    with pytest.raises(ValueError, match=rf"{option} must be .*\(got -1\)"):
        ours.lock(name, **options)


@asks("clients", ALGORITHM)
def test_default_initialization(silent: list[Any]) -> None:
    client = redlock.Redlock(silent[0].url)
    assert client.nodes == [silent[0].url]


@asks("clients", ALGORITHM)
def test_initialization_with_params() -> None:
    assert redlock.Redlock(["redis://[::1]:1"]).nodes == ["redis://[::1]:1"]


@asks("bad_times", ALGORITHM)
@pytest.mark.parametrize("option", ["node_timeout", "restart_guard"])
@pytest.mark.parametrize("value", [-1, "string"])
def test_initialization_with_invalid_params(option: str, value: Any) -> None:
    options: Any = {option: value}
    with pytest.raises(ValueError, match=f"{option} (is|must be) "):
        redlock.Redlock("redis://127.0.0.1:1", **options)
    for theirs in ("retry_count", "retry_delay_min", "retry_delay_max"):
        wrong: Any = {theirs: value}
        with pytest.raises(ValueError, match="wait"):
            redlock.Redlock("redis://127.0.0.1:1", **wrong)
    wrong = {"internal_lock_timeout": value}
    with pytest.raises(ValueError, match="ttl"):
        redlock.Redlock("redis://127.0.0.1:1", **wrong)


@asks("writes", ALGORITHM, ITS_LOCK)
def test_lock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lock = ours.lock(name, ttl=1)
    assert (lock.name, lock.ttl) == (name, 1)
    lease = call(lock, "acquire")
    assert (r.get(name), lease.held) == (lease.token, True)
    call(lease, "release")


@asks("bad_times", ALGORITHM)
def test_lock_with_invalid_param(ours: redlock.Redlock, name: str) -> None:
    with pytest.raises(ValueError, match=r"ttl must be .*\(got -1\)"):
        ours.lock(name, ttl=-1)


@asks("retries", ALGORITHM)
def test_lock_one_retry(pair: Any, name: str, call: Call) -> None:
    lease = call(pair[0].lock(name, ttl=20), "acquire")
    timer = threading.Timer(0.2, lease.release)
    timer.start()
    again = call(pair[1].lock(name, ttl=1), "acquire", wait=20)
    timer.join()
    assert again.held
    call(again, "release")


def gives_up_and_leaves_nothing(
    servers: list[Server], name: str, call: Call, error: type[redlock.LockError]
) -> None:
    """Two of three nodes refuse or do not reply. The grant of the third one is cancelled."""
    with redlock.Redlock(
        [server.url for server in servers], key_prefix="", restart_guard=0, node_timeout=0.2
    ) as client:
        with pytest.raises(error):
            call(client.lock(name, ttl=600), "acquire", wait=0.5)
        eventually(lambda: not servers[0].client.exists(name))


@asks("retries", ALGORITHM)
def test_lock_expire_retries(trio_of_nodes: list[Server], name: str, call: Call) -> None:
    for server in trio_of_nodes[1:]:
        server.client.set(name, "another", px=60_000)
    gives_up_and_leaves_nothing(trio_of_nodes, name, call, redlock.LockTimeout)


@asks("retries", ALGORITHM)
def test_lock_one_timeout(trio_of_nodes: list[Server], name: str, call: Call) -> None:
    for server in trio_of_nodes[1:]:
        server.freeze()
    timer = threading.Timer(0.5, trio_of_nodes[1].thaw)
    timer.start()
    with redlock.Redlock(
        [server.url for server in trio_of_nodes], key_prefix="", restart_guard=0
    ) as client:
        lease = call(client.lock(name, ttl=5), "acquire", wait=30)
        timer.join()
        assert lease.held
        call(lease, "release")


@asks("too_short", ALGORITHM)
def test_lock_expire_retries_for_timeouts(
    trio_of_nodes: list[Server], name: str, call: Call
) -> None:
    for server in trio_of_nodes[1:]:
        server.freeze()
    gives_up_and_leaves_nothing(trio_of_nodes, name, call, redlock.QuorumUnavailable)


@asks("too_short", ALGORITHM)
def test_lock_expire_retries_because_drift(ours: redlock.Redlock, name: str, call: Call) -> None:
    # One percent and 2 ms are subtracted immediately, so less remains than the servers report.
    lease = call(ours.lock(name, ttl=10), "acquire")
    assert lease.remaining < 10 - 0.1
    call(lease, "release")


@asks("cancelled", ALGORITHM)
def test_cancel_lock_(pair: Any, r: Any, name: str) -> None:
    async def main() -> None:
        lease = await pair[0].lock(name).as_async().acquire()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pair[1].lock(name).as_async().acquire(), 0.1)
        await lease.release()
        assert not (await pair[0].lock(name).as_async().inspect()).held

    asyncio.run(main())
    assert not r.exists(name)


@asks("extend_released", ALGORITHM)
def test_extend_lock(ours: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=1), "acquire")
    call(lease, "extend")
    assert lease.held
    call(lease, "release")
    with pytest.raises(redlock.LockLost, match="was released"):
        call(lease, "extend")


@asks("bad_times", ALGORITHM)
def test_extend_with_invalid_param(ours: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    with pytest.raises(ValueError, match=r"ttl must be .*\(got -1\)"):
        call(lease, "extend", -1)
    call(lease, "release")


@asks("writes", ALGORITHM)
def test_unlock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    call(lease, "release")
    assert (lease.held, r.exists(name)) == (False, 0)


@asks("locked", ALGORITHM)
@pytest.mark.parametrize("held", [True, False])
def test_is_locked(ours: redlock.Redlock, r: Any, name: str, call: Call, held: bool) -> None:
    if held:
        r.set(name, "another", px=60_000)
    assert call(ours.lock(name), "inspect").held is held


@asks("locked_name", ALGORITHM)
def test_is_locked_type_error(ours: redlock.Redlock) -> None:
    wrong: Any = 12345
    with pytest.raises(redlock.InvalidOption, match="the name is 12345"):
        ours.lock(wrong)


@asks("with", ALGORITHM)
def test_context_manager(ours: redlock.Redlock, r: Any, name: str, within: Call) -> None:
    def body(lease: redlock.Lease) -> redlock.Lease:
        assert r.get(name) == lease.token
        return lease

    lease = within(ours.lock(name, ttl=1), body)
    assert (lease.held, r.exists(name)) == (False, 0)


@asks("closed", ALGORITHM)
def test_destroy_lock_manager(redis_server: Server, r: Any, name: str, call: Call) -> None:
    client = redlock.Redlock(redis_server.url, key_prefix="", client_name=name)
    lease = call(client.lock(name, ttl=1), "acquire")
    assert call(client, "shutdown", 0.1) == 1
    assert (lease.held, r.exists(name)) == (False, 0)
    # The ended lease holds the last reference to the connection.
    del lease
    eventually(lambda: not any(each["name"] == name for each in r.client_list()))


@asks("renewal", ALGORITHM)
def test_auto_extend(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=1), "acquire")
    # Its TTL is over by then.
    eventually(lambda: ours.stats().renewed >= 4)
    assert (lease.held, r.get(name)) == (True, lease.token)
    call(lease, "release")
