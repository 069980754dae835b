"""A decorated function's lock: its name from the arguments of each call, and the errors without a valid name."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
import redlock


class Order:
    def __init__(self, id: int) -> None:
        self.id = id


class Store:
    def __init__(self, name: str) -> None:
        self.name = name

    def save(self, order: Order, *, retry: int = 3) -> str:
        raise NotImplementedError


def held_keys(client: redlock.Redlock) -> list[str]:
    return [lease.key for lease in client.leases()]


def decorated(
    client: redlock.Redlock, name: Any, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns the function decorated with its lock. It returns the keys that are held during a call."""

    @functools.wraps(function)
    def runs(*args: Any, **kwargs: Any) -> list[str]:
        return held_keys(client)

    return client.lock(name)(runs)


def pay(order_id: int, amount: int = 5, *more: str, currency: str = "EUR", **rest: int) -> None:
    raise NotImplementedError


#: Names with placeholders or functions, and the key that each builds for the call `pay(42)`.
NAMES: dict[str, tuple[Any, str]] = {
    "one": ("invoice:{order_id}", "invoice:42"),
    "default": ("{order_id}-{amount}-{currency}", "42-5-EUR"),
    "format": ("invoice:{order_id:06d}", "invoice:000042"),
    "nested": ("{order_id:0{amount}d}", "00042"),
    "escaped": ("{{{order_id}}}:stock", "{42}:stock"),
    "only-escaped": ("{{slot}}", "{slot}"),
    "without": ("invoice", "invoice"),
    "several": (["{{{order_id}}}:a", "{{{order_id}}}:b"], "{42}:a, lock:{42}:b"),
    "function": (lambda order_id: f"invoice:{order_id}", "invoice:42"),
    "function-of-a-default": (lambda currency, order_id: f"{currency}{order_id}", "EUR42"),
    "function-with-its-own": (lambda order_id, version=2: f"{order_id}/{version}", "42/2"),
    "function-of-nothing": (lambda: "all", "all"),
    "function-of-everything": (lambda *args, **kwargs: f"{args}{kwargs}", "(42,){}"),
    "function-in-other-words": (lambda number, amount=7: f"{number}/{amount}", "42/7"),
    "function-several": (lambda order_id: [f"a{order_id}", "b"], "a42, lock:b"),
}


@pytest.mark.parametrize("kind", NAMES)
def test_name_is_built_from_the_arguments(client: redlock.Redlock, kind: str) -> None:
    name, key = NAMES[kind]
    assert decorated(client, name, pay)(42) == [f"lock:{key}"]
    assert held_keys(client) == []


def test_placeholders_match_positional_and_keyword_arguments(client: redlock.Redlock) -> None:
    function = decorated(client, "{order_id}:{amount}:{more[0]}:{rest[extra]}", pay)
    assert function(1, 2, "x", extra=3) == ["lock:1:2:x:3"]
    assert decorated(client, "{amount}/{order_id}", pay)(amount=1, order_id=2) == ["lock:1/2"]
    with pytest.raises(TypeError, match="order_id"):
        decorated(client, "{order_id}", pay)()


def test_name_of_a_method_can_use_self(client: redlock.Redlock) -> None:
    class Locked(Store):
        save = decorated(client, "{self.name}:{order.id}", Store.save)  # type: ignore[assignment]

    assert Locked("eu").save(Order(7)) == ["lock:eu:7"]
    by_function = decorated(client, lambda order: f"order:{order.id}", Store.save)
    assert by_function(Store("eu"), Order(7), retry=1) == ["lock:order:7"]


def test_name_of_a_coroutine_function_uses_its_arguments(client: redlock.Redlock) -> None:
    @client.lock("invoice:{order_id}")
    async def pay(order_id: int) -> list[str]:
        await asyncio.sleep(0)
        return held_keys(client)

    async def main() -> None:
        assert await asyncio.gather(pay(1)) == [["lock:invoice:1"]]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("invoice:{order}", r"no parameter 'order' \(it has: order_id, amount,.*'\{\{' and '\}\}'"),
        ("invoice:{}", "no parameter ''"),
        ("invoice:{0}", "no parameter '0'"),
        ("{order_id:{width}}", "no parameter 'width'"),
        ("invoice:{order_id", "it is invalid"),
        ("invoice:}", "it is invalid"),
    ],
)
def test_unknown_placeholder_is_refused_at_decoration(
    client: redlock.Redlock, name: str, said: str
) -> None:
    with pytest.raises(redlock.InvalidOption, match=said):
        client.lock(name)(pay)
    # Without a decorated function, the name is used literally, as always.
    assert client.lock(name).key == f"lock:{name}"


def test_name_that_no_other_process_could_build_is_refused(client: redlock.Redlock) -> None:
    function = decorated(client, "order:{order_id}", pay)
    for value in (Order(1), [Order(1)], lambda: None):
        with pytest.raises(redlock.InvalidOption, match="differs in every process"):
            function(value)
    with pytest.raises(redlock.InvalidOption, match=r"the parameters of .* are unknown"):
        client.lock("{key}")(max)

    async def name() -> str:
        raise NotImplementedError

    with pytest.raises(redlock.InvalidOption, match="coroutine function"):
        client.lock(name)(pay)  # type: ignore[arg-type]


def test_object_that_cannot_be_decorated_is_refused_with_a_reason(client: redlock.Redlock) -> None:
    lock: Any = client.lock("job")
    with pytest.raises(TypeError, match=r"is a class.*decorate its methods"):
        lock(Store)
    with pytest.raises(TypeError, match="put @property above"):
        lock(property(lambda self: 1))
    with pytest.raises(TypeError, match="put @cached_property above"):
        lock(functools.cached_property(lambda self: 1))
    with pytest.raises(TypeError, match="5 is not a function"):
        lock(5)
    bare: Any = client.lock(pay)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"meant to be @lock\(name\)"):
        bare(5)


def test_call_that_cannot_acquire_returns_the_default(client: redlock.Redlock, name: str) -> None:
    ran: list[int] = []

    @client.lock(name, wait=0, default=None)
    def report(day: int) -> int:
        ran.append(day)
        return day

    @client.lock(name, wait=0, default="skipped")
    async def areport(day: int) -> int:
        ran.append(day)
        return day

    assert report(1) == 1
    assert asyncio.run(areport(2)) == 2
    with client.lock(name):
        assert report(3) is None
        assert asyncio.run(areport(4)) == "skipped"
    assert report(5) == 5
    assert ran == [1, 2, 5]


def test_lock_error_inside_the_function_is_raised(client: redlock.Redlock, name: str) -> None:
    def fails() -> None:
        client.lock(f"{name}-inner").acquire(wait=0)

    async def afails() -> None:
        await client.lock(f"{name}-inner").as_async().acquire(wait=0)

    lock = client.lock(name, wait=0, default=None)
    with client.lock(f"{name}-inner"):
        with pytest.raises(redlock.LockTimeout, match="inner"):
            lock(fails)()
        with pytest.raises(redlock.LockTimeout, match="inner"):
            asyncio.run(lock(afails)())  # type: ignore[arg-type]
    assert not client.lock(name).inspect().held


def test_unavailable_nodes_raise_despite_a_default() -> None:
    client = redlock.Redlock("redis://127.0.0.1:1")
    with pytest.raises(redlock.QuorumUnavailable):
        client.lock("job", ttl=0.5, wait=0, default=None)(print)()


def test_default_needs_a_decorator_with_a_finite_wait(client: redlock.Redlock) -> None:
    for wait in (None, float("inf")):
        with pytest.raises(redlock.InvalidOption, match=r"needs a finite wait=.*wait=0"):
            client.lock("job", wait=wait, default=None)
    with pytest.raises(redlock.InvalidOption, match="needs a finite wait="):
        redlock.lock("job", default=1)
    lock: Any = client.lock("job", wait=0, default=None)
    for use in (lock.acquire, lock.try_acquire, lock.__enter__, lock.inspect):
        with pytest.raises(redlock.InvalidOption, match="only decorate"):
            use()
