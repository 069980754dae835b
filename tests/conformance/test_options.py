"""Options, names, URLs and keys that are refused: the same texts in every language, before anything is sent."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cross.agents import Reply
from tests.servers import Silent

from .conftest import World
from .remote import Lock

VECTORS = Path(__file__).parent.parent / "vectors"
Row = dict[str, Any]
#: Names that have another spelling in Node.js.
SNAKE_CASE = re.compile(r"\b(key_prefix|node_timeout|restart_guard|m(ax|in)_hold|tls_\w+)\b")


def table(name: str) -> dict[str, list[Row]]:
    return tomllib.loads((VECTORS / f"{name}.toml").read_text())


@pytest.fixture
def silent(timed: World) -> Iterator[list[Silent]]:
    """Starts three nodes that must not receive a connection before the test is over."""
    nodes = [Silent() for _ in range(3)]
    yield nodes
    # By now the core's thread has had a turn and would have sent any background request.
    timed.one.lock("turn").acquire().release()
    called = [node.called() for node in nodes]
    for node in nodes:
        node.close()
    assert not any(called), "something was sent"


def spelled(world: World, text: str) -> str:
    """Returns a text of a table as the language of the agent writes it."""
    if world.language != "node":
        return re.sub(r"<(\w+)>", r"\1", text)
    text = re.sub(r"<(\w+)>", lambda name: re.sub("_(.)", lambda at: at[1].upper(), name[1]), text)
    return re.sub(r"(\d+(?:\.\d+)?) s\b", lambda time: f"{round(float(time[1]) * 1000)} ms", text)


def check(world: World, row: Row, reply: Reply) -> None:
    """Checks the reply to one command against its row."""
    if "error" not in row:
        assert reply["ok"], (row, reply)
        return
    assert reply.get("code") == "invalid", (row, reply)
    if world.language == "node":
        assert not SNAKE_CASE.search(reply["message"]), (row, reply)
    words = row["error"] + (row.get("node_error", []) if world.language == "node" else [])
    for word in words:
        assert spelled(world, word) in reply["message"], (row, reply)
    for word in row.get("never", []):
        assert word not in reply["message"], (row, reply)


def rows(world: World, kind: str, port: int) -> Iterator[Row]:
    """Yields the rows that the language can express, with the port of a node that does not reply."""
    for row in table("options")[kind]:
        values = [*row.get("options", {}).values(), row.get("wait_ms", 0)]
        is_unsigned = not any(
            value in ("nan", "inf") or (isinstance(value, int | float) and (value < 0 or value % 1))
            for value in values
        )
        if world.language != "rust" or is_unsigned:
            yield with_port(row, port)


def with_port(row: Row, port: int) -> Row:
    """Returns the row with the port of a node."""

    def here(value: Any) -> Any:  # noqa: ANN401  (any field of a row)
        if isinstance(value, list):
            return [here(each) for each in value]
        return value.replace("PORT", str(port)) if isinstance(value, str) else value

    return {field: here(value) for field, value in row.items()}


def test_options_and_names_of_a_lock(timed: World, silent: list[Silent]) -> None:
    for row in rows(timed, "lock", silent[0].port):
        count = row.get("nodes", 1)
        nodes = [node.url for node in silent[:count]] if "error" in row else ["memory://"]
        names = [f"name-{at}" for at in range(row.get("many_names", 1))]
        names = ["x" * row["long_name"]] if "long_name" in row else row.get("names", names)
        # It would limit the ttl with one node, too, because it is not the default.
        guard = {"restart_guard_ms": 60_000} if count > 1 else {}
        client = timed.client(nodes=nodes, **guard)
        lock = Lock(client, {"name": names, **row.get("options", {})})
        check(timed, row, lock.start(wait_ms=row.get("wait_ms", 0)).reply())


def test_options_and_nodes_of_a_client(timed: World, silent: list[Silent]) -> None:
    for row in rows(timed, "client", silent[0].port):
        nodes = row.get("nodes", [silent[0].url])
        check(timed, row, timed.attempt(nodes=nodes, **row.get("options", {})))


def test_parameters_of_a_url(timed: World, silent: list[Silent]) -> None:
    """They are those of other clients."""
    for row in (with_port(row, silent[0].port) for row in table("urls")["url"]):
        reply = timed.attempt(nodes=[row["node"]], **row.get("options", {}))
        check(timed, row, reply)
        assert reply.get("nodes") == ([row["shown"]] if "shown" in row else []), (row, reply)


def test_valid_options_reach_the_node(timed: World) -> None:
    """So the tests above can fail."""
    node = Silent()
    timed.client(nodes=[node.url], connect_timeout_ms=100).lock("job", ttl_ms=100).fails(
        "acquire", "unavailable", wait_ms=0
    )
    assert node.called()
    node.close()


def test_database_and_name_reach_the_server(on_servers: World) -> None:
    url = on_servers.servers[0].url
    clients = [
        on_servers.client(nodes=[f"{url}?db=3&protocol=2&client_name=by-url"]),
        on_servers.client(nodes=[url], client_name="by-option"),
        on_servers.client(nodes=[url]),
    ]
    # The first lock is another one, in another database.
    leases = [client.lock(on_servers.name).start().lease() for client in clients[:2]]
    clients[2].lock(on_servers.name).is_refused()
    listed = {each["name"]: each for each in on_servers.servers[0].client.client_list()}
    assert (listed["by-url"]["db"], listed["redlock"]["db"]) == ("3", "0")
    # Redis reports it since 7.0.
    assert listed["by-url"].get("resp", "2") == "2"
    assert listed["redlock"].get("resp", "3") == "3"
    assert "by-option" in listed
    for lease in leases:
        lease.release()


def test_one_server_under_two_urls_is_refused_once_connected(on_servers: World) -> None:
    server = on_servers.servers[0]
    nodes = [server.url, f"redis://localhost:{server.port}", f"{server.url}/1"]
    message = on_servers.client(nodes=nodes).lock(on_servers.name).mistake()
    assert "same server as" in message
    assert "independent" in message


def test_arguments_of_a_lease(timed: World) -> None:
    lock = timed.one.lock(timed.name)
    lease = lock.acquire()
    message = lease.fails("extend", "invalid", ttl_ms=0)["message"]
    assert "ttl must be at least" in message
    assert "(got 0 " in message
    assert lease.held
    assert "token is empty" in lock.fails("attach", "invalid", token="")["message"]
    assert "name is empty" in timed.one.lock("").fails("force_release", "invalid")["message"]


OF_ANOTHER_TYPE = ("another type", "WRONGTYPE")
#: The command that sets a key to a value of another program, the code of an acquire, and its message.
KEYS = [
    (
        "HSET KEY field value",
        "unsupported",
        (*OF_ANOTHER_TYPE, "choose another name or <key_prefix>"),
    ),
    ("RPUSH KEY value", "unsupported", OF_ANOTHER_TYPE),
    ("SADD KEY value", "unsupported", OF_ANOTHER_TYPE),
    ("SET KEY value", "timeout", ("it is already held", "no TTL")),
    (
        "SET KEY value PX 59500",
        "timeout",
        ("it is already held, and expires in 5", "unless renewed"),
    ),
]


@pytest.mark.parametrize(("command", "code", "words"), KEYS)
def test_keys_of_other_programs_are_reported_and_unchanged(
    on_servers: World, command: str, code: str, words: tuple[str, ...]
) -> None:
    lock, key = on_servers.one.lock(on_servers.name), f"lock:{on_servers.name}"
    on_servers.command(*command.replace("KEY", key).split())
    before = on_servers.servers[0].client.dump(key)
    errors = [lock.fails("acquire", code, wait_ms=100)]
    if code == "unsupported":
        errors += [lock.fails(verb, code) for verb in ("inspect", "force_release")]
        errors.append(lock.fails("attach", code, token="0" * 32))
    for error in errors:
        for word in (key, *words):
            assert spelled(on_servers, word) in error["message"]
    assert on_servers.servers[0].client.dump(key) == before
