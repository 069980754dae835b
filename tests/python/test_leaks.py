"""Tens of thousands of calls leave no resource behind in the process, including cancelled, refused and lost ones."""

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.servers import Server

from .processes import run

PROGRAM = (Path(__file__).parent / "programs" / "cycles.py").read_text()
#: In each of four bursts.
ROUNDS = int(os.environ.get("CYCLES", "20000")) // 4
KINDS = {"released", "refused", "lost", "collected", "clients", "raised"}


@pytest.mark.limit(3600)
@pytest.mark.parametrize("kind", ["sync", "async", "trio", "gevent"])
@pytest.mark.slow("tens of thousands of cycles")
def test_cycles_leave_no_resource_behind(redis_server: Server, kind: str) -> None:
    process = run(PROGRAM, redis_server.url, kind, str(ROUNDS))
    out, err = process.communicate(timeout=120 + ROUNDS / 50)
    assert process.returncode == 0, err
    ended = json.loads(out.splitlines()[-1])
    assert set(ended["counts"]) == KINDS | ({"cancelled"} if kind != "sync" else set())
    assert min(ended["counts"].values()) >= 4 * ROUNDS // 50
    warm, *bursts = ended["seen"]

    def growth(what: str) -> int:
        """Returns the least growth of all bursts. A leak shows in every burst, while the allocator's behaviour shows
        only in some.
        """
        sizes = [warm[what], *(burst[what] for burst in bursts)]
        return min(after - before for before, after in pairwise(sizes))

    for what in ("files", "threads", "leases"):
        assert growth(what) <= 0, ended
    assert bursts[-1]["leases"] == 0
    # 100 bytes a cycle, and a Python object in twenty cycles.
    assert growth("rss") < 100 * ROUNDS, ended
    assert growth("blocks") < ROUNDS / 20, ended
