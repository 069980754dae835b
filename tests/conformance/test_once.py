"""`once`: a body that runs unless it ran with success within a given time."""

import pytest

from tests.waiting import eventually

from .conftest import World
from .remote import TTL, Acquiring, Client

DAY = 86_400_000


def started(client: Client, name: str, **options: object) -> Acquiring:
    return client.lock(name, **{"remember_ms": DAY, **options}).start("once")


def test_a_success_is_remembered(world: World) -> None:
    run = started(world.one, world.name)
    run.has_begun()
    assert run.end().reply()["ran"]
    for client in (world.one, world.two):
        assert started(client, world.name).reply()["ran"] is False
        # A lock on the same name waits for the rest.
        error = client.lock(world.name).fails("acquire", "timeout", wait_ms=0)
        assert error["remaining_ms"] > DAY * 0.99
    counts = world.two.do("stats")
    assert (counts["refused"], counts["timed_out"]) == (1, 1)
    found = world.two.lock(world.name).do("inspect")
    assert not found["held"]
    assert "kept" in {node["state"] for node in found["nodes"]}
    # The memory can be deleted.
    assert world.two.lock(world.name).do("force_release")["deleted"]
    run = started(world.two, world.name, wait_ms=TTL)
    run.has_begun()
    assert run.end().reply()["ran"]


def test_a_failure_leaves_no_memory(on_all: World) -> None:
    run = started(on_all.one, on_all.name)
    run.has_begun()
    assert run.end("fails").reply()["code"] == "invalid"
    eventually(lambda: not any(on_all.command("EXISTS", f"lock:{on_all.name}")))
    started(on_all.two, on_all.name).has_begun()


def test_a_revoked_run_leaves_no_memory(world: World) -> None:
    run = started(world.one, world.name)
    run.has_begun()
    assert world.one.do("release_all")["released"] == 1
    error = run.end().reply()
    assert (error["code"], error["reason"]) == ("lost", "revoked")
    started(world.two, world.name, wait_ms=TTL).has_begun()


@pytest.mark.parametrize("how", ["returns", "fails"])
def test_a_concurrent_run_is_refused_or_waits(world: World, how: str) -> None:
    first = started(world.one, world.name, label="first")
    first.has_begun()
    error = started(world.two, world.name).reply()
    assert (error["code"], error["holder"]) == ("timeout", "first")
    waiting = [
        started(client, world.name, wait_ms=TTL * 3) for client in (world.one, world.two, world.two)
    ]
    eventually(lambda: (world.one.waiting, world.two.waiting) == (1, 2))
    assert first.end(how).reply()["ok"] == (how == "returns")
    if how == "fails":
        # One of them runs the body.
        (second,) = eventually(lambda: [each for each in waiting if each.is_over])
        second.has_begun()
        waiting.remove(second)
        assert second.end().reply()["ran"]
    assert {each.reply()["ran"] for each in waiting} == {False}


def test_a_running_body_has_the_key_for_its_ttl_only(on_servers: World) -> None:
    """A process that dies while its body runs leaves the key as it is then."""
    run = started(on_servers.one, on_servers.name)
    run.has_begun()
    assert 0 < on_servers.command("PTTL", f"lock:{on_servers.name}")[0] <= TTL
    run.end().reply()


def test_the_memory_counts_from_the_start_and_ends(timed: World) -> None:
    client, options = timed.one, {"remember_ms": TTL * 10}
    run = started(client, "payment", **options)
    run.has_begun()
    client.do("advance", ms=TTL)
    assert run.end().reply()["ran"]
    client.do("advance", ms=TTL * 8)
    assert started(client, "payment", **options).reply()["ran"] is False
    client.do("advance", ms=TTL * 2)
    started(client, "payment", **options).has_begun()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"remember_ms": 0}, "remember must be above 0"),
        ({"remember_ms": DAY * 4000}, "remember must be at most ten years"),
        ({"ttl_ms": 5}, "ttl must be at least"),
        ({"name": ["a", "b"]}, "one name"),
    ],
)
def test_mistakes_are_refused(timed: World, options: dict[str, object], text: str) -> None:
    error = started(timed.one, **{"name": "payment", **options}).reply()  # type: ignore[arg-type]
    assert (error["ok"], error["code"]) == (False, "invalid")
    assert text in error["message"]
