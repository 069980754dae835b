"""Values that are allowed or possible, but probably not meant: they cause an error or a warning."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.servers import Silent
from tests.waiting import eventually

Call = Callable[..., Any]


def warnings(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [text for text in caplog.messages if words in text]


def test_extend_in_milliseconds_is_warned_of(
    client: redlock.Redlock, name: str, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    lease = client.lock(name).acquire()
    call(lease, "extend", 30_000)
    call(lease, "extend", 30_000)
    (text,) = eventually(lambda: warnings(caplog, name))
    assert "the ttl is above one hour. Check its unit" in text
    call(lease, "release")


def test_template_outside_a_decorator_is_warned_of(
    name: str, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    with redlock.Redlock("memory://") as client:
        for _ in range(2):
            call(call(client.lock(f"{name}:{{user}}"), "acquire"), "release")
        call(call(client.lock(f"{name}:{{42}}"), "acquire"), "release")
        call(call(client.lock(f"{name}:{None}"), "acquire"), "release")

        @client.lock(f"{name}:{{user}}")
        def decorated(user: str) -> None: ...

        decorated("me")
        found = eventually(lambda: len(warnings(caplog, name)) == 2 and warnings(caplog, name))
    assert "it contains {user} as text, so all callers share this lock. Use an f-string" in found[0]
    assert "it contains None, as if a value was missing" in found[1]


def test_none_in_a_template_is_an_error(client: redlock.Redlock, name: str) -> None:
    @client.lock(f"{name}:{{user}}")
    def decorated(user: "str | None" = None) -> str:
        return f"ran for {user}"

    with pytest.raises(redlock.InvalidOption, match="None, so all calls without a value"):
        decorated()
    assert decorated("me") == "ran for me"
    assert decorated("None") == "ran for None"


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_even_number_of_nodes_is_warned_of(
    count: int, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [f"memory://{name}-{node}" for node in range(count)]
    with redlock.Redlock(nodes, restart_guard=0) as client:
        client.lock(name, ttl=7200).acquire().release()
    # Logged after all records about the nodes.
    eventually(lambda: warnings(caplog, "above one hour"))
    found = warnings(caplog, "survive no more failures")
    if count % 2 == 0:
        (text,) = found
        assert f"{count} nodes survive no more failures than {count - 1}" in text
        assert "Use an odd number of nodes" in text
    else:
        assert not found


def test_misspelled_option_is_guessed(client: redlock.Redlock, call: Call) -> None:
    for options, meant in [({"tll": 5}, "ttl"), ({"max_hlod": 5}, "max_hold")]:
        with pytest.raises(redlock.InvalidOption, match=rf"Did you mean {meant}\?"):
            client.lock("job", **options)
    misspelled: Any = {"conect_timeout": 5}
    with pytest.raises(redlock.InvalidOption, match=r"Did you mean connect_timeout\?"):
        redlock.Redlock("memory://", **misspelled)


def test_short_wait_blames_no_node(call: Call) -> None:
    node = Silent()
    with (
        redlock.Redlock(node.url) as client,
        pytest.raises(redlock.QuorumUnavailable, match="wait was too short") as caught,
    ):
        call(client.lock("job"), "acquire", wait=0.001)
    assert [report.state for report in caught.value.nodes] == ["pending"]
    assert "failed" not in str(caught.value).replace("has not failed", "")
    node.close()


def test_endless_default_needs_a_finite_wait(client: redlock.Redlock) -> None:
    with pytest.raises(redlock.InvalidOption, match="default= needs a finite wait="):
        client.lock("job", wait=math.inf, default=None)


@pytest.mark.parametrize("how", ["max_hold", "wait", "acquire"])
def test_long_hold_of_a_leader_is_not_logged(
    how: str, name: str, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    with redlock.Redlock("memory://") as client:
        options = {"max_hold": {"max_hold": 60}, "wait": {"wait": math.inf}}.get(how, {})
        acquire = {"wait": math.inf} if how == "acquire" else {}
        leader = call(client.lock(f"{name}-leader", ttl=20, **options), "acquire", **acquire)
        other = call(client.lock(f"{name}-other", ttl=20), "acquire")
        for lease in (leader, other):
            call(lease, "extend", 0.1)  # never shortens, so it stays held on a busy machine
        words = "held for more than ten times"
        eventually(lambda: warnings(caplog, words))
        renewed = client.stats().renewed
        eventually(lambda: client.stats().renewed > renewed + 6)
        (text,) = warnings(caplog, words)
        assert f"{name}-other" in text
