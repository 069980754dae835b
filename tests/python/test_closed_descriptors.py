"""A program that closes the descriptors of the whole process, as daemons do at their start."""

import json
from pathlib import Path

import pytest

from tests.servers import Server

from . import processes

PROGRAMS = Path(__file__).with_name("programs")

pytestmark = pytest.mark.slow(
    "a development build aborts where a descriptor is closed twice, which tokio does after its panic"
)


@pytest.mark.limit(60)
@pytest.mark.parametrize("how", ["threads", "loop"])
def test_closed_descriptors_lose_leases_and_the_next_calls_open_others(
    redis_server: Server, name: str, how: str
) -> None:
    program = (PROGRAMS / "closed_descriptors.py").read_text()
    process = processes.run(program, how, redis_server.url, name)
    out, errors = process.communicate(timeout=50)
    assert out, errors
    answer = json.loads(out)
    assert answer["told"], errors
    assert answer["reason"] == "internal"
    assert any("closed descriptors" in record for record in answer["log"]), answer
    assert answer["loop"] is True
    # The call that notices it may fail, with an error that names the cause.
    first, *others = answer["threads"]
    assert first is True or "descriptors" in first
    assert others == [True, True]


@pytest.mark.limit(60)
def test_running_loop_is_told_of_closed_descriptors(redis_server: Server, name: str) -> None:
    program = (PROGRAMS / "closed_in_loop.py").read_text()
    out, errors = processes.run(program, redis_server.url, name).communicate(timeout=50)
    assert out, errors
    answer = json.loads(out)
    assert answer["reason"] == "internal"
    # Before another client can acquire the lock.
    assert answer["told"] < 3
    assert answer["waiter"] == "LockLost"
    assert answer["calls"][1:] == [True, True], answer
    assert answer["calls"][0] is True or "descriptors" in answer["calls"][0]


@pytest.mark.limit(60)
@pytest.mark.parametrize("how", ["shutdown", "release_all", "release"])
def test_end_of_a_client_ends_without_its_descriptors(
    redis_server: Server, name: str, how: str
) -> None:
    program = (PROGRAMS / "closed_before_end.py").read_text()
    out, errors = processes.run(program, redis_server.url, name, how).communicate(timeout=20)
    assert out.strip(), errors


@pytest.mark.limit(60)
@pytest.mark.parametrize("how", ["on_lost", "drop", "advance", "advance_during", "advance_in_loop"])
def test_first_call_without_descriptors_ends_without_a_panic(
    redis_server: Server, name: str, how: str
) -> None:
    program = (PROGRAMS / "closed_first_call.py").read_text()
    process = processes.run(program, how, redis_server.url, name)
    out, errors = process.communicate(timeout=50)
    assert out == "True\n", (out, errors)
    assert "PanicException" not in errors


@pytest.mark.limit(60)
def test_lease_acquired_right_before_is_notified(redis_server: Server, name: str) -> None:
    program = (PROGRAMS / "closed_first_call.py").read_text()
    # Without the rule, one of four was notified of nothing.
    started = [processes.run(program, "none", redis_server.url, name) for _ in range(12)]
    ended = [process.communicate(timeout=50) for process in started]
    assert [out for out, _ in ended] == ["True\n"] * len(ended), ended
