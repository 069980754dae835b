"""A broken or hostile reply is an error with its cause, in time, for every command."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redlock

from .fake import ATTEMPTS, ROWS, FakeServers, Row
from .processes import run

SINGLE_REPLIES = [row for row in ROWS if row.get("then") != "again"]
ENDLESS_REPLIES = [row for row in ROWS if row.get("then") == "again"]
SCRIPT_REPLIES = [row for row in SINGLE_REPLIES if row["to"] == "EVALSHA"]
MB = 1 << 20


def node_timeout_for(row: Row) -> float:
    """Longer than a reply takes on a busy machine. Shorter where no reply will come."""
    return 9.0 if row["cause"] else 0.4


Verb = Callable[..., Any]
#: Applies a function to each row's client. No errors may remain.
Each = Callable[[FakeServers, list[Row], Callable[..., Any]], None]


def unexpected_error(row: Row, error: BaseException | None, words: list[str]) -> str | None:
    """Returns the error in the outcome of a call, if there is one."""
    if not isinstance(error, redlock.QuorumUnavailable):
        return f"{row['about']}: {error!r}"
    (node,) = error.nodes
    shown = f"{error} {error!r} {vars(error)} {node}"
    right = node.state == "fault" and node.error and all(word in node.error for word in words)
    secret = "s3cret" in shown or "s3cret" in node.url
    return None if right and not secret else f"{row['about']}: {shown}"


@pytest.fixture(params=["sync", "async"])
def each(request: pytest.FixtureRequest) -> Each:
    """Plays all rows at once, each on a thread or as a task of one loop."""

    def play(fakes: FakeServers, rows: list[Row], scenario: Callable[..., Any]) -> None:
        def client(row: Row) -> redlock.Redlock:
            url = fakes.urls[row["about"]]
            return redlock.Redlock(url, node_timeout=node_timeout_for(row), connect_timeout=2)

        async def awaited() -> list[Any]:
            async def one(row: Row) -> Any:
                async def call(thing: Any, verb: str, *args: Any, **options: Any) -> Any:
                    result = await getattr(thing.as_async(), verb)(*args, **options)
                    return result.as_sync() if isinstance(result, redlock.AsyncLease) else result

                with client(row) as mine:
                    return await scenario(row, mine, call)

            return await asyncio.gather(*map(one, rows))

        def alone(row: Row) -> Any:
            async def call(thing: Any, verb: str, *args: Any, **options: Any) -> Any:
                return getattr(thing, verb)(*args, **options)

            with client(row) as mine:
                return run_without_waiting(scenario(row, mine, call))

        if request.param == "async":
            verdicts = asyncio.run(awaited())
        else:
            with ThreadPoolExecutor(len(rows)) as pool:
                verdicts = list(pool.map(alone, rows))
        wrong = [verdict for verdict in verdicts if verdict]
        assert not wrong, "\n".join(wrong)

    return play


def run_without_waiting(coroutine: Any) -> Any:
    """Runs a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


async def outcome(row: Row, words: list[str], call: Verb, *args: Any, **options: Any) -> str | None:
    try:
        answer = await call(*args, **options)
    except Exception as error:
        return unexpected_error(row, error, words)
    return f"{row['about']}: {args[1]} gave {answer!r}"


def test_an_acquire_ends_within_its_wait(each: Each) -> None:
    async def scenario(row: Row, client: redlock.Redlock, call: Verb) -> Any:
        return await outcome(row, [], call, client.lock("job", wait=1), "acquire")

    with FakeServers(SINGLE_REPLIES) as fakes:
        each(fakes, SINGLE_REPLIES, scenario)


def test_broken_reply_to_a_plain_attempt_falls_back_to_the_script(
    each: Each,
) -> None:
    async def scenario(row: Row, client: redlock.Redlock, call: Verb) -> Any:
        lease = await call(client.lock("job"), "acquire")
        right = lease.held and row["about"] in fakes.granted
        lease.detach()
        return None if right else row["about"]

    with FakeServers(ATTEMPTS) as fakes:
        each(fakes, ATTEMPTS, scenario)


def test_every_verb_reports_the_cause_within_node_timeout(each: Each) -> None:
    async def scenario(row: Row, client: redlock.Redlock, call: Verb) -> Any:
        lock, cause = client.lock("job"), (row, row["cause"], call)
        return (
            await outcome(*cause, lock, "inspect")
            or await outcome(*cause, lock, "try_acquire")
            or await outcome(*cause, client, "attach", "job", "token")
            or await outcome(*cause, client, "force_release", "job")
        )

    with FakeServers(SINGLE_REPLIES) as fakes:
        each(fakes, SINGLE_REPLIES, scenario)


def test_broken_reply_neither_extends_nor_releases_a_lease(each: Each) -> None:
    async def scenario(row: Row, client: redlock.Redlock, call: Verb) -> Any:
        lease = await call(client.lock("job", ttl=30, renew=False), "acquire")
        fakes.healthy.discard(row["about"])
        cause = (row, row["cause"], call)
        extended = await outcome(*cause, lease, "extend", 30)
        lost = None if lease.held else f"{row['about']}: lost by an odd answer"
        return extended or lost or await outcome(*cause, lease, "release")

    with FakeServers(SCRIPT_REPLIES) as fakes:
        fakes.healthy.update(row["about"] for row in SCRIPT_REPLIES)
        each(fakes, SCRIPT_REPLIES, scenario)


def memory_peak(what: str) -> int:
    text = Path("/proc/self/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


def test_broken_replies_reserve_no_memory_and_starve_no_other_server(
    each: Each, redis_client: redlock.Redlock, name: str
) -> None:
    async def scenario(row: Row, client: redlock.Redlock, call: Verb) -> Any:
        lock = client.lock("job")
        return await outcome(row, row["cause"], call, lock, "try_acquire")

    sizes = [row for row in ROWS if row in ENDLESS_REPLIES or "000000" in row["say"]]
    with redis_client.lock(name, ttl=2).acquire() as held, FakeServers(sizes) as fakes:
        before = memory_peak("VmHWM"), memory_peak("VmPeak")
        for row in sizes:
            each(fakes, [row], scenario)
            held.ensure_held()
    assert memory_peak("VmHWM") - before[0] < 100 * MB
    assert memory_peak("VmPeak") - before[1] < 1000 * MB


LOGGED = """
import logging, sys, redlock
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
for url in sys.argv[1:]:
    with redlock.Redlock(url, node_timeout=3) as client:
        try: client.lock("job").acquire(wait=0)
        except redlock.QuorumUnavailable as error: print(repr(error), client, error.nodes)
"""


def test_a_password_that_a_server_repeats_is_not_shown_or_logged() -> None:
    rows = [row for row in ROWS if "{asked}" in row["say"]]
    with FakeServers(rows) as fakes:
        out, err = run(LOGGED, *fakes.urls.values()).communicate(timeout=30)
    assert err == ""
    assert out.count("DEBUG:redlock.node:no connection") >= len(rows), out
    assert all(cause in out for row in rows for cause in row["cause"]), out
    assert "s3cret" not in out
