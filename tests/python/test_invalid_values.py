"""Values of unusual classes for options and names raise only InvalidOption, and no command is sent."""

import asyncio
import datetime
import decimal
import fractions
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redlock

from tests.servers import Silent

from .processes import run

Use = Callable[[Any], object]


class Raises:
    """Every operation on it fails, including its repr."""

    def fails(self, *_: object) -> Any:
        raise RuntimeError("a question")

    __float__ = __index__ = __fspath__ = __str__ = __repr__ = __len__ = __iter__ = fails
    total_seconds = property(fails)


class RaisesFloat(int):
    def __float__(self) -> float:
        raise AttributeError("no float")


class Endless(list[str]):
    def __iter__(self) -> Iterator[str]:
        raise TypeError("no items")


class OddDelta(datetime.timedelta):
    def total_seconds(self) -> Any:
        return "5"


class FailingDelta(datetime.timedelta):
    def total_seconds(self) -> float:
        raise OverflowError("too long")


class OddPath:
    def __fspath__(self) -> Any:
        return 5


bool_ = type("bool_", (), {"__float__": lambda self: 1.0})  # numpy's


def uses(client: redlock.Redlock, kind: str) -> Iterator[Use]:
    lock, lease = client.lock("job"), redlock.Redlock("memory://").lock("x").acquire()

    def awaited(verb: Callable[..., Any]) -> Use:
        async def main(value: Any) -> object:
            return await verb(value)

        return lambda value: asyncio.run(main(value))

    if kind == "time":
        for option in ("ttl", "wait", "max_hold", "node_timeout"):
            yield lambda value, option=option: client.lock("job", **{option: value})  # type: ignore[misc]
        for option in ("node_timeout", "restart_guard"):
            yield lambda value, option=option: redlock.Redlock("memory://", **{option: value})  # type: ignore[misc]
        yield lambda value: lock.acquire(wait=value)
        yield awaited(lambda value: lock.as_async().acquire(wait=value))
        yield lease.extend
        yield awaited(lease.as_async().extend)
        yield client.shutdown
        yield awaited(client.as_async().shutdown)
        yield lambda value: client.attach("job", "token", ttl=value)
    elif kind == "switch":
        for option in ("renew", "fencing"):
            yield lambda value, option=option: client.lock("job", **{option: value})  # type: ignore[misc]
        yield lambda value: redlock.configure("memory://", replace=value)
    elif kind == "name":
        yield client.lock
        yield redlock.lock
        yield client.force_release
        yield awaited(client.as_async().force_release)
        yield lambda value: client.attach(value, "token")
        yield lambda value: client.lock(lambda: value)(print)()
    elif kind == "text":
        yield lambda value: redlock.Redlock("memory://", key_prefix=value)
        yield lambda value: redlock.Redlock("memory://", tls_server_name=value)
        yield lambda value: client.attach("job", value)
        yield redlock.Redlock
        yield lambda value: redlock.Redlock(["memory://", value])
    else:
        for option in ("tls_ca", "tls_cert", "tls_key"):
            yield lambda value, option=option: redlock.Redlock("memory://", **{option: value})  # type: ignore[misc]
    lease.release()


WRONG: dict[str, list[Any]] = {
    "time": [
        Raises(), RaisesFloat(5), OddDelta(seconds=5), FailingDelta(seconds=5), True, bool_(), "5",
        b"5", 10**400, -(10**400), datetime.timedelta.max, -1, float("nan"), 5j, [5], object(),
    ],
    "switch": [Raises(), 1, 0, "yes", b"", [], bool_()],
    "name": [Raises(), Endless(["a"]), ["a", Raises()], b"a", 5, True, {"a"}, iter("a"), {}, "\ud800",
        "\udc80", ["a", "b\ud800"], ["a", ["b"]], None],
    "text": [Raises(), b"a", 5, True, "\ud800", ["a", 5]],
    "path": [Raises(), OddPath(), b"-----BEGIN secret", 5, True, object()],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "at"), [(kind, at) for kind, values in WRONG.items() for at in range(len(values))]
)
def test_a_wrong_type_is_an_invalid_option(silent: list[Silent], kind: str, at: int) -> None:
    value = WRONG[kind][at]
    with redlock.Redlock(silent[0].url) as client:
        for use in uses(client, kind):
            with pytest.raises(redlock.InvalidOption) as caught:
                use(value)
            assert "secret" not in str(caught.value)
            assert len(str(caught.value)) < 600


class Text(str):
    __slots__ = ()

    def __call__(self) -> None:
        raise AssertionError("a name that is text is not called")


class Seconds(float):
    pass


class Whole(int):
    pass


class Delta(datetime.timedelta):
    pass


class Indexed:
    def __index__(self) -> int:
        return 5


class Path(os.PathLike[str]):
    def __fspath__(self) -> str:
        return "/nowhere/ca.pem"


TIMES = [
    Seconds(5), Whole(5), Delta(seconds=5), decimal.Decimal(5), fractions.Fraction(5), Indexed(),
]  # fmt: skip


@pytest.mark.parametrize("ttl", TIMES, ids=lambda value: type(value).__name__)
def test_subclasses_and_other_number_types_are_accepted(ttl: Any) -> None:
    with redlock.Redlock(Text("memory://"), key_prefix=Text("p:")) as client:
        assert client.lock(Text("job")).names == ["job"]
        with client.lock([Text("a"), "b"], ttl=ttl).acquire(wait=ttl) as lease:
            assert lease.ttl == 5
            assert lease.keys == ["p:a", "p:b"]
    with pytest.raises(redlock.InvalidOption, match=r"/nowhere/ca\.pem"):
        redlock.Redlock("rediss://127.0.0.1:1", tls_ca=Path())


def test_ctrl_c_inside_a_values_method_is_raised() -> None:
    class Interrupted:
        def __float__(self) -> float:
            raise KeyboardInterrupt

    with redlock.Redlock("memory://") as client, pytest.raises(KeyboardInterrupt):
        client.lock("job", ttl=Interrupted())  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ["REDLOCK_NODES", "REDIS_URL"])
def test_environment_variable_that_is_not_utf8_is_refused(variable: str) -> None:
    code = """
import redlock
try: redlock.lock("job").try_acquire()
except redlock.InvalidOption as error: print(error)
"""
    environment = {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()}
    environment[variable.encode()] = b"redis://\xff"
    out, err = run(code, env=environment).communicate(timeout=20)
    assert variable in out, err
    assert "UTF-8" in out
