"""A forked child starts without a connection and owns no lease."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import Server

from .processes import run

FORKED = """
import json, os, sys, redlock
client = redlock.Redlock(sys.argv[1])
lease = client.lock(sys.argv[2], ttl=20).acquire()
read, write = os.pipe()
if os.fork() == 0:
    answer = {"held": lease.held, "leases": len(client.leases())}
    try: lease.release()
    except redlock.LockLost as error: answer["release"] = error.reason
    answer["try"] = client.lock(sys.argv[2]).try_acquire() is not None
    with client.lock(sys.argv[2] + "-child", ttl=20) as other: answer["own"] = other.held
    import asyncio
    async def main():
        async with client.lock(sys.argv[2] + "-child", ttl=20) as other: return other.held
    answer["async"] = asyncio.run(main())
    os.write(write, json.dumps(answer).encode())
    os._exit(0)
os.close(write)
child = json.loads(os.read(read, 4096) or b'{}')
_, status = os.wait()
print(json.dumps({"child": child, "status": status, "held": lease.held}))
lease.release()
"""


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_forked_child_owns_no_leases_and_can_lock(
    redis_server: Server, name: str, kind: str
) -> None:
    url = redis_server.url if kind == "redis" else "memory://"
    out, err = run(
        FORKED.replace(
            "import json", "import warnings; warnings.simplefilter('ignore'); import json", 1
        ),
        url,
        name,
    ).communicate(timeout=30)
    answer = json.loads(out or err)
    assert answer["held"] is True
    assert answer["status"] == 0
    child = answer["child"]
    assert child["held"] is False
    assert child["leases"] == 0
    assert child["release"] == "forked"
    assert child["own"] is True
    assert child["async"] is True
    if kind == "redis":
        assert child["try"] is False


FORKED_LOOP = """
import asyncio, os, sys, threading, redlock
client = redlock.Redlock(sys.argv[1])
async def main():
    async with client.lock(sys.argv[2], ttl=20) as lease: return lease.held
def hammer():
    lock = client.lock(sys.argv[2] + "-hammer")
    while not stop.is_set():
        with lock: pass
stop = threading.Event()
thread = threading.Thread(target=hammer)
thread.start()
asyncio.run(main())
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if asyncio.run(main()) else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
thread.join()
print("done")
"""


def test_child_forked_while_a_thread_locks_can_lock(redis_server: Server, name: str) -> None:
    """If a mutex of redlock were held at the fork, the child would hang."""
    code = "import warnings; warnings.simplefilter('ignore')\n" + FORKED_LOOP
    out, err = run(code, redis_server.url, name).communicate(timeout=60)
    assert out == "done\n", err


@pytest.mark.limit(2400)
@pytest.mark.parametrize("each", [12, 150])
@pytest.mark.slow("hundreds of forks under load")
def test_children_forked_under_load_can_lock(redis_server: Server, name: str, each: int) -> None:
    """Whatever a redlock thread was doing at the fork, the child's first acquire does not hang.

    Many processes fork a few times, for the first use of threads. A few processes fork often, for everything else.
    """
    forks = int(os.environ.get("FORKS", "150"))
    code = (Path(__file__).with_name("programs") / "forks.py").read_text()

    def play(number: int) -> None:
        process = run(code, redis_server.url, f"{name}-{number}", str(each))
        out, err = process.communicate(timeout=600)
        assert out == "done 0\n", err

    with ThreadPoolExecutor(4) as pool:
        assert len([*pool.map(play, range(-(-forks // each)))]) * each >= forks
    assert not redis_server.client.keys(f"lock:{name}*")


CONTINUED = (Path(__file__).parent / "programs" / "continued.py").read_text()


@pytest.mark.parametrize(
    ("verb", "result"),
    [
        ("acquire", "None True"),
        ("try_acquire", "None True"),
        ("attach", "True True"),
        ("inspect", "held=True"),
        ("force_release", "False True"),
        ("extend", "None True"),
        ("release", "None False"),
        ("release_all", "1 False"),
        ("shutdown", "0 False"),
    ],
)
def test_child_forked_by_a_signal_handler_does_not_continue_the_call(
    redis_server: Server, name: str, verb: str, result: str
) -> None:
    """In the child, the call ends at once. In the parent, it continues."""
    out, err = run(CONTINUED, redis_server.url, str(redis_server.port), name, verb).communicate(
        timeout=60
    )
    child, _, own = out.partition("\n")
    assert child == "child 0", err
    assert result in own, err
