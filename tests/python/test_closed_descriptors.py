"""A program that closes the descriptors of the whole process, as daemons do at their start."""

import json
from pathlib import Path

import pytest

from . import processes
from .servers import Server

PROGRAM = Path(__file__).with_name("programs") / "closed_descriptors.py"


@pytest.mark.limit(60)
@pytest.mark.parametrize("how", ["threads", "loop"])
def test_closed_descriptors_lose_leases_and_the_next_calls_open_others(
    redis_server: Server, name: str, how: str
) -> None:
    process = processes.run(PROGRAM.read_text(), how, redis_server.url, name)
    out, errors = process.communicate(timeout=50)
    assert out, errors
    answer = json.loads(out)
    assert answer["told"], errors
    assert answer["reason"] == "internal"
    assert any("closed descriptors" in record for record in answer["log"]), answer
    assert answer["loop"] is True
    # The call that notices it may fail, with a clear error.
    first, *others = answer["threads"]
    assert first is True or "closed descriptors" in first
    assert others == [True, True]
