"""A holder learns of a loss from any cause, once by each way that its language has.

On one node the cause is a loss. On five nodes a single node is healed, and a majority is a loss. RUNS=20 (make
measure-loss) ends twenty leases by each cause, four at a time, and prints the medians.
"""

import os
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from tests.servers import Server, SteppedServer
from tests.waiting import eventually

from .agents import Agent, Program, Reply, now, program

RUNS = -(-int(os.environ.get("RUNS", "1")) // 4)
#: Too long for a renewal during a test.
TTL_MS = 60_000
#: The signs of one loss for each form, in any order.
NOTIFICATIONS = {
    "sync": {"last_held", "on_lost", "raised", "logged"},
    "asyncio": {"last_held", "on_lost", "raised", "logged"},
    # Node.js emits a warning only for a loss without a listener: tests/node/warnings.test.mjs.
    "using": {"last_held", "on_lost", "raised", "signal"},
}
COUNTS = pytest.mark.parametrize("count", [1, 5])


Servers = list[SteppedServer]
Keys = list[str]


@dataclass(frozen=True)
class Cause:
    """An operation on the keys of some servers, and the loss reason if all servers are affected."""

    action: Callable[[Servers, Keys], object]
    reason: str = "missing"
    #: The holder sleeps meanwhile. Awake, it would heal one node before the next one is changed.
    unseen: bool = True
    #: A single affected node gets the lease back.
    heals: bool = True
    #: In seconds. Far above the measured values and far below a renewal.
    within: float = 2.0


def on_each(*words: str | int) -> Callable[[Servers, Keys], None]:
    """Returns a function that sends a command for each key, or one for all if it does not contain KEY."""

    def action(servers: Servers, keys: Keys) -> None:
        for server in servers:
            for key in keys if "KEY" in words else [""]:
                server.command(*(key if word == "KEY" else word for word in words))

    return action


def cut_short(servers: Servers, keys: Keys) -> None:
    on_each("PEXPIRE", "KEY", 1)(servers, keys)
    time.sleep(0.01)
    # Redis deletes and reports an expired key when a client accesses it.
    on_each("EXISTS", "KEY")(servers, keys)


def step(servers: Servers, keys: Keys) -> None:
    for server in servers:
        server.step(3600)


def restart(end: Callable[[SteppedServer], None]) -> Callable[[Servers, Keys], None]:
    def action(servers: Servers, keys: Keys) -> None:
        for server in servers:
            end(server)
        for server in servers:
            server.process.wait()
            server.restart()

    return action


TAKE_OVER = "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'other', 'PX', 60000)"
CAUSES = {
    "DEL": Cause(on_each("DEL", "KEY")),
    "taken over": Cause(on_each("EVAL", TAKE_OVER, 1, "KEY"), reason="taken", heals=False),
    "FLUSHDB": Cause(on_each("FLUSHDB")),
    "FLUSHALL": Cause(on_each("FLUSHALL")),
    "PEXPIRE": Cause(cut_short),
    "clock step": Cause(step),
    "SHUTDOWN": Cause(restart(lambda server: server.process.terminate()), unseen=False, within=4),
    "kill -9": Cause(restart(lambda server: server.process.kill()), unseen=False, within=4),
}


#: One cause is enough for the first tier.
SLOW_TIER = pytest.mark.slow("restarts, steps of the clock, and how soon each holder is notified")
#: Whether the test includes the time until a holder is notified.
MEASURED = RUNS > 1 or os.environ.get("REDLOCK_TEST_TIER") == "slow"


@pytest.fixture(scope="module")
def stepped(clock_library: str) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield [stack.enter_context(SteppedServer(clock_library)) for _ in range(5)]


Figures = dict[tuple[str, int], list[float]]


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    """Collects how long the notifications took, in ms."""
    found: Figures = defaultdict(list)
    yield found
    print(f"\nmedian and longest time until notified, in ms, {4 * RUNS} holders")
    for (cause, count), some in found.items():
        print(f"  {cause:<11} on {count}: {statistics.median(some):8.1f} {max(some):8.1f}")


def not_healed(server: Server, tokens: dict[str, str]) -> dict[str, str | None]:
    """Returns the values of the keys that do not get their tokens back in time."""
    wrong: dict[str, str | None] = {}

    def healed() -> bool:
        nonlocal wrong
        found = {key: server.get(key) for key in tokens}
        wrong = {key: value for key, value in found.items() if value != tokens[key]}
        return not wrong

    with suppress(AssertionError):
        eventually(healed)
    return wrong


def apply_cause(
    cause: Cause, servers: Servers, tokens: dict[str, str], holders: list[Program]
) -> int:
    """Applies the cause to all servers. Returns when that was done and the holders were awake."""
    unseen = cause.unseen and (len(servers) > 1 or cause.action is cut_short)
    for holder in holders if unseen else ():
        holder.pause()
    cause.action(servers, list(tokens))
    done = now()
    for holder in holders if unseen else ():
        holder.resume()
    return done


def check_signs(form: str, signs: list[Reply]) -> dict[str, Reply]:
    """Returns the signs by name and checks that each occurred once."""
    counted = Counter(sign["sign"] for sign in signs)
    assert counted == Counter(NOTIFICATIONS[form]), (form, signs)
    return {sign["sign"]: sign for sign in signs}


@COUNTS
@pytest.mark.parametrize(
    "name_of_cause",
    [pytest.param(cause, marks=[] if cause == "DEL" else [SLOW_TIER]) for cause in CAUSES],
)
@pytest.mark.parametrize("run", range(RUNS))
def test_loss_is_reported_once_through_every_api(
    run: int,
    name_of_cause: str,
    count: int,
    stepped: Servers,
    name: str,
    figures: Figures,
) -> None:
    cause, urls = CAUSES[name_of_cause], [server.url for server in stepped[:count]]
    with ExitStack() as stack:
        witnesses = {
            form: stack.enter_context(program(form, urls, f"{name}-{form}", TTL_MS, 1))
            for form in NOTIFICATIONS
        }
        tokens = {
            f"lock:{name}-{form}": each.receive()["token"] for form, each in witnesses.items()
        }
        rust = stack.enter_context(Agent("rust", urls))
        held = rust.must("acquire", name=f"{name}-rust", ttl_ms=TTL_MS, wait_ms=0)
        tokens[f"lock:{name}-rust"] = held["token"]
        rust.send("lost", timeout_ms=TTL_MS)
        holders: list[Program] = [*witnesses.values(), rust]
        if count > 1:
            unhealed = [not_healed(server, tokens) for server in stepped]
            assert not any(unhealed), "a vote that came late is made up for"
            cause.action(stepped[3:4], list(tokens))
            wrong = not_healed(stepped[3], tokens) if cause.heals else {}
            assert all(holder.silent_for(0.05) for holder in holders), (
                "the loss of one node ended the lease"
            )
            assert not wrong
        done = apply_cause(cause, stepped[: count // 2 + 1], tokens, holders)
        notified = {form: check_signs(form, each.rest()) for form, each in witnesses.items()}
        rust_loss = rust.receive()
        for server in stepped[:count]:
            server.step(0)
            server.command("FLUSHALL")
    allowed = {cause.reason} if count == 1 else {cause.reason, "quorum"}
    reasons = {s["reason"] for signs in notified.values() for s in signs.values() if "reason" in s}
    assert reasons | {rust_loss["reason"]} <= allowed
    assert notified["asyncio"]["raised"]["cause"] == "CancelledError"
    assert not any(signs["raised"]["held"] for signs in notified.values())
    logged = [signs for signs in notified.values() if "logged" in signs]
    assert logged
    assert all(signs["raised"]["reason"] in signs["logged"]["text"] for signs in logged)
    ats = [rust_loss["at"], *(signs["on_lost"]["at"] for signs in notified.values())]
    figures[name_of_cause, count] += [(at - done) / 1e6 for at in ats]
    if MEASURED:
        assert max(ats) - done < cause.within * 1e9, figures[name_of_cause, count]


@COUNTS
@pytest.mark.slow("a second for what may come late")
def test_shortened_ttl_is_restored_or_reported(count: int, stepped: Servers, name: str) -> None:
    """No holder believes in a key that no longer exists."""
    with Agent("rust", [server.url for server in stepped[:count]]) as holder:
        token = holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)["token"]
        for server in stepped[:count]:
            server.command("PEXPIRE", f"lock:{name}", 100)
        time.sleep(1)
        kept = sum(server.get(f"lock:{name}") == token for server in stepped[:count])
        assert kept == count or not holder.must("held")["held"]
        if kept == count:
            holder.must("release")


@COUNTS
@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.slow("processes are stopped beyond their ttl")
def test_process_stopped_beyond_its_ttl_does_not_hold_again(
    run: int, count: int, five: list[Server], name: str
) -> None:
    """Bodies that only read `held` are stopped at random times. None reads true after another client has the lock."""
    urls = [server.url for server in five[:count]]
    with ExitStack() as stack:
        sleepers = {
            form: stack.enter_context(program(form, urls, f"{name}-{form}", 1000, 0))
            for form in NOTIFICATIONS
        }
        successors = {form: stack.enter_context(Agent("rust", urls)) for form in NOTIFICATIONS}
        for sleeper in sleepers.values():
            assert sleeper.receive()["sign"] == "holds"
        time.sleep(random.uniform(0.1, 0.3))
        for sleeper in sleepers.values():
            sleeper.pause()
        taken = {
            form: each.must("acquire", name=f"{name}-{form}", ttl_ms=20_000, wait_ms=5000)["at"]
            for form, each in successors.items()
        }
        for sleeper in sleepers.values():
            sleeper.resume()
        for form, sleeper in sleepers.items():
            notified = check_signs(form, sleeper.rest())
            assert notified["last_held"]["at"] < taken[form], form
            assert notified["raised"]["reason"] in {"expired", "taken"}
        for successor in successors.values():
            successor.must("release")
