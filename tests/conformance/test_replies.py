"""A broken or hostile reply is an error with its cause, in time, for every command."""

from pathlib import Path

from tests.fake import ATTEMPTS, ROWS, FakeServers, Row
from tests.waiting import eventually

from .conftest import World
from .remote import Client, Pending

SINGLE_REPLIES = [row for row in ROWS if row.get("then") != "again"]
ENDLESS_REPLIES = [row for row in ROWS if row.get("then") == "again"]
SCRIPT_REPLIES = [row for row in SINGLE_REPLIES if row["to"] == "EVALSHA"]
MB = 1 << 20


def client_of(world: World, fakes: FakeServers, row: Row) -> Client:
    # Longer than a reply takes on a busy machine. Shorter where no reply will come.
    node_timeout = 9000 if row["cause"] else 400
    url = fakes.urls[row["about"]]
    return world.client(nodes=[url], node_timeout_ms=node_timeout, connect_timeout_ms=2000)


def is_refused(row: Row, pending: Pending, words: list[str]) -> None:
    error = pending.reply()
    assert error.get("code") == "unavailable", (row["about"], error)
    (node,) = error["nodes"]
    assert node["state"] == "fault"
    assert node["error"]
    assert all(word in node["error"] for word in words), (row["about"], node)
    assert "s3cret" not in error["shown"]


def each_is_refused(world: World, rows: list[Row], *commands: str) -> None:
    """Sends commands to the fakes of all rows at once."""
    with FakeServers(rows) as fakes:
        clients = [client_of(world, fakes, row) for row in rows]
        locks = [client.lock("job", token="token") for client in clients]
        begun = [[lock.begin(command) for command in commands] for lock in locks]
        for row, replies in zip(rows, begun, strict=True):
            for pending in replies:
                is_refused(row, pending, row["cause"])
        for client in clients:
            client.do("close")
        # Pending deletes stay for one TTL.
        eventually(lambda: fakes.connections() <= len(rows))


def test_every_command_reports_the_cause(timed: World) -> None:
    each_is_refused(timed, SINGLE_REPLIES, "inspect", "try", "attach", "force_release")


def test_an_acquire_ends_within_its_wait(timed: World) -> None:
    with FakeServers(SINGLE_REPLIES) as fakes:
        clients = [client_of(timed, fakes, row) for row in SINGLE_REPLIES]
        begun = [client.lock("job").start(wait_ms=5000) for client in clients]
        for row, pending in zip(SINGLE_REPLIES, begun, strict=True):
            is_refused(row, pending, [])


def test_a_broken_reply_to_a_plain_attempt_falls_back_to_the_script(timed: World) -> None:
    with FakeServers(ATTEMPTS) as fakes:
        for row in ATTEMPTS:
            client = client_of(timed, fakes, row)
            lease = client.lock("job").acquire(wait_ms=None)
            assert lease.held
            assert row["about"] in fakes.granted
            lease.do("detach")


def test_a_broken_reply_neither_extends_nor_releases_a_lease(timed: World) -> None:
    with FakeServers(SCRIPT_REPLIES) as fakes:
        fakes.healthy.update(row["about"] for row in SCRIPT_REPLIES)
        clients = [client_of(timed, fakes, row) for row in SCRIPT_REPLIES]
        locks = [client.lock("job", ttl_ms=30_000, renew=False) for client in clients]
        leases = [lock.acquire(wait_ms=None) for lock in locks]
        fakes.healthy.clear()
        for verb in ("extend", "release"):
            begun = [lease.begin(verb, ttl_ms=30_000) for lease in leases]
            for row, lease, pending in zip(SCRIPT_REPLIES, leases, begun, strict=True):
                is_refused(row, pending, row["cause"])
                assert lease.held == (verb == "extend")


def memory_peaks(world: World) -> list[int]:
    status = Path(f"/proc/{world.conversation.agent.process.pid}/status").read_text().splitlines()
    peaks = [line for line in status if line.startswith(("VmHWM", "VmPeak"))]
    return [int(line.split()[1]) * 1024 for line in peaks]


def test_broken_replies_reserve_no_memory_and_starve_no_other_server(on_servers: World) -> None:
    sizes = [row for row in ROWS if row in ENDLESS_REPLIES or "000000" in row["say"]]
    held = on_servers.one.lock(on_servers.name, ttl_ms=2000).acquire()
    before = memory_peaks(on_servers)
    for row in sizes:
        each_is_refused(on_servers, [row], "try")
        held.do("ensure_held")
    virtual, resident = (
        after - before for after, before in zip(memory_peaks(on_servers), before, strict=True)
    )
    assert resident < 100 * MB
    assert virtual < 1000 * MB
