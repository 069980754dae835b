"""`leader`: bodies that run one after the other, each while its candidate leads."""

import pytest

from tests.cross.agents import Reply
from tests.waiting import eventually

from .conftest import World
from .remote import TTL, Lock


def seen(lock: Lock) -> Reply:
    """What a candidate that does not lead says about the leader."""
    reply = lock.start("leader").reply()
    assert not reply["leads"]
    return reply


def test_a_resignation_hands_over(world: World) -> None:
    clients = {"a": world.one, "b": world.two, "c": world.one}
    locks = {label: client.lock(world.name, label=label) for label, client in clients.items()}
    runs = {label: lock.start("lead", fencing=True) for label, lock in locks.items()}
    ends, last = iter(["returns", "fails", "returns"]), 0
    while runs:
        (label,) = eventually(lambda: [label for label, run in runs.items() if run.is_over])
        run = runs.pop(label)
        term = run.lease()
        assert term.fencing_token > last
        last = term.fencing_token
        states = [each.next("leader", name=world.name).reply() for each in (run, *runs.values())]
        assert [state["leads"] for state in states] == [True, *[False] * len(runs)]
        assert {state["current"] for state in states} == {label}
        assert seen(world.two.lock(world.name))["current"] == label
        how = next(ends)
        reply = run.end(how).reply()
        assert reply["ran"] if how == "returns" else reply["code"] == "invalid"
        assert not run.next("leader", name=world.name).reply()["leads"]
    eventually(lambda: seen(world.one.lock(world.name))["current"] is None)


def test_a_leader_has_a_label(world: World) -> None:
    process = world.conversation.agent.process.pid
    for client, label in ((world.one, f"-{process}"), (world.client(label="web-3"), "web-3")):
        lock = client.lock(world.name)
        run = lock.start("lead")
        run.has_begun()
        lock.is_refused()
        assert seen(lock)["current"].endswith(label)
        run.end().reply()
    # A plain lock has none.
    world.one.lock(world.name).acquire(wait_ms=TTL)
    assert seen(world.two.lock(world.name))["current"] == ""


def test_a_campaign_survives_an_outage(timed: World) -> None:
    client = timed.one
    client.do("fail")
    run = client.lock("job").start("lead")
    eventually(lambda: client.waiting == 1)
    # A lock gives up after 10 s.
    gives_up = client.lock("other").start()
    while not gives_up.is_over:
        client.do("advance", ms=1000)
    assert gives_up.reply()["code"] == "unavailable"
    client.do("advance", ms=600_000)
    assert not run.is_over
    client.do("recover")
    while not run.is_over:
        client.do("advance", ms=1000)
    run.has_begun()
    assert run.end().reply()["ran"]


def test_max_hold_limits_a_term_and_a_closed_client_campaigns_no_more(timed: World) -> None:
    client = timed.one
    run = client.lock("job", max_hold_ms=TTL * 3).start("lead")
    for _ in range(2):
        run.has_begun()
        client.do("advance", ms=TTL * 3)
        run = run.next()
    run.has_begun()
    client.do("close")
    assert run.next().reply()["code"] == "closed"
    assert client.lock("job").start("lead").reply()["code"] == "closed"


@pytest.mark.parametrize("verb", ["lead", "leader"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": ["a", "b"]}, "one name"),
        ({"name": ""}, "name"),
        ({"ttl_ms": 5}, "ttl must be at least"),
        ({"label": "a b"}, "label must have 1 to 48"),
        ({"max_hold_ms": 0}, "must be at least"),
    ],
)
def test_mistakes_are_refused(
    timed: World, options: dict[str, object], text: str, verb: str
) -> None:
    lock = timed.one.lock(**{"name": "job", **options})  # type: ignore[arg-type]
    error = lock.start(verb).reply()
    assert (error["ok"], error["code"]) == (False, "invalid")
    assert text in error["message"]
