"""Labels of holders: the value of a key, what other clients show, and values of other programs."""

import tomllib
from pathlib import Path

import pytest

from .conftest import World
from .remote import TTL

LABELS: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent.parent / "vectors/labels.toml").read_text()
)
DIGITS = "0123456789abcdef" * 2


@pytest.mark.parametrize("label", LABELS["valid"])
def test_other_clients_name_the_holder(on_all: World, label: str) -> None:
    lease = on_all.one.lock(on_all.name, label=label).acquire()
    digits, _, written = lease.token.partition(":")
    assert (len(digits), written) == (32, label)
    assert lease.token in on_all.command("GET", lease.keys[0])
    error = on_all.two.lock(on_all.name).fails("acquire", "timeout", wait_ms=0)
    assert error["holder"] == label
    assert f"already held by {label}, and expires in" in error["message"]
    assert digits not in error["message"]
    found = on_all.two.lock(on_all.name).do("inspect")
    assert (found["held"], found["label"]) == (True, label)
    assert (digits[:8], label) in {(node["token"], node["label"]) for node in found["nodes"]}
    lease.extend(TTL * 2)
    lease.release()
    assert on_all.two.lock(on_all.name).do("inspect")["label"] is None


@pytest.mark.parametrize("label", LABELS["invalid"])
def test_an_invalid_label_is_refused(timed: World, label: str) -> None:
    client = timed.client(nodes=["redis://127.0.0.1:1"])
    text = client.lock("job", label=label).mistake()
    of_client = client.fails("client", "invalid", label=label)["message"]
    for message in (text, of_client):
        assert all(word in message for word in LABELS["error"])
        assert message.isprintable()


def test_the_label_of_the_lock_overrides_that_of_the_client(world: World) -> None:
    client = world.client(label="client")
    assert client.lock(f"{world.name}-a").acquire().token.endswith(":client")
    assert client.lock(f"{world.name}-b", label="lock").acquire().token.endswith(":lock")
    pid = client.lock(f"{world.name}-c", label=True).acquire().token.rpartition("-")[2]
    assert int(pid) == world.conversation.agent.process.pid


def test_the_own_lease_is_named_with_its_age(world: World) -> None:
    world.one.lock(world.name, label="web-3").acquire()
    text = world.one.lock(world.name).refusal()
    assert "already held by web-3, which acquired it " in text
    assert " s ago, and expires in " in text
    # That is not the age of another lease with the same label.
    other = f"{world.name}-other"
    world.two.lock(other, label="web-3").acquire()
    text = world.one.lock([other, world.name]).refusal()
    assert "already held by web-3, and expires in" in text


def test_attach_needs_the_whole_value(world: World) -> None:
    lease = world.one.lock(world.name, label="web-3").acquire()
    theirs = world.two.lock(world.name, label="web-4")
    for wrong in (lease.token[:32], lease.token.replace("web-3", "web-4"), f"{lease.token}x"):
        theirs.fails("attach", "lost", token=wrong)
    # The attached lease keeps the value, whatever the label of its lock is.
    attached = theirs.attach(lease.token)
    lease.do("detach")
    assert attached.token == lease.token
    assert world.one.lock(world.name).fails("acquire", "timeout", wait_ms=0)["holder"] == "web-3"
    attached.release()
    world.one.lock(world.name).acquire()


@pytest.mark.parametrize("value", [*LABELS["foreign"], "{digits}:forged" + "x" * 10_000])
def test_a_foreign_value_is_never_shown(on_servers: World, value: str) -> None:
    key = f"lock:{on_servers.name}"
    on_servers.command("SET", key, value.replace("{digits}", DIGITS), "PX", 60_000)
    lock = on_servers.one.lock(on_servers.name)
    error = lock.fails("acquire", "timeout", wait_ms=0)
    assert (error["holder"], "forged" in str(error)) == (None, False)
    assert "it is already held, and expires in" in error["message"]
    assert error["message"].isprintable()
    lock.is_refused()
    found = lock.do("inspect")
    assert (found["held"], found["label"]) == (True, None)
    assert [(node["state"], node["label"]) for node in found["nodes"]] == [("held", None)]


@pytest.mark.parametrize("kept", [False, True])
def test_force_release_deletes_a_labelled_value(world: World, kept: bool) -> None:
    label = "x" * 48
    lock = world.one.lock(world.name, label=label, min_hold_ms=TTL // 2)
    lease = lock.acquire()
    if kept:
        lease.release()
        error = lock.fails("acquire", "timeout", wait_ms=0)
        assert ("it was released" in error["message"], error["holder"]) == (True, None)
        found = lock.do("inspect")
        assert (found["held"], found["label"]) == (False, None)
        # The previous owner.
        assert ("kept", label) in {(node["state"], node["label"]) for node in found["nodes"]}
    else:
        lease.do("detach")
    assert lock.do("force_release")["deleted"]
    world.two.lock(world.name).acquire()


@pytest.mark.parametrize("step", [1, 2])
def test_each_node_reports_its_holder(on_all: World, step: int) -> None:
    key, servers = f"lock:{on_all.name}", on_all.servers
    labels = [None if at % step else f"of-{at}" for at in range(len(servers))]
    for at, (server, label) in enumerate(zip(servers, labels, strict=True)):
        value = f"{at}{DIGITS[1:]}" + (f":{label}" if label else "")
        server.command("SET", key, value, "PX", 60_000)
    found = on_all.one.lock(on_all.name).do("inspect")
    assert [node["label"] for node in found["nodes"]] == labels
    single = len(servers) == 1
    assert (found["held"], found["label"]) == (single, "of-0" if single else None)


def test_many_leases_with_and_without_a_label(world: World) -> None:
    client, labels = world.client(), [{"label": "web-3"}, {}] * 20
    locks = [client.lock(f"{world.name}-{at}", **label) for at, label in enumerate(labels)]
    leases = [each.lease() for each in [lock.start() for lock in locks]]
    for lease, label in zip(leases, labels, strict=True):
        assert lease.token[32:] == (":web-3" if label else "")
    assert len({lease.token[:32] for lease in leases}) == len(leases)
    assert client.do("release_all")["released"] == len(leases)
