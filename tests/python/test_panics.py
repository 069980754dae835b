"""A panic in the native part becomes an exception on every path, and the process continues."""

import json

from .processes import run

PANICS = """
import asyncio, json, threading, redlock
from redlock._native import _panic_for_tests as panic

def outcome(call):
    try: call()
    except BaseException as error: return [type(error).__name__, getattr(error, "code", None), str(error)]

async def awaited(place):
    try: await panic(place)
    except redlock.LockError as error: return [type(error).__name__, error.code, str(error)]

async def batch():
    places = ["future", "answer", "future", "answer"]
    other = asyncio.ensure_future(client.lock("other").as_async().acquire())
    answers = await asyncio.wait_for(asyncio.gather(*map(awaited, places)), 10)
    async with await other as lease: return answers, lease.held

def callback():
    notified = threading.Event()
    for number, callback in enumerate([lambda _: panic("call"), lambda _: notified.set()]):
        lease = client.lock(f"lost-{number}").acquire()
        lease.on_lost(callback)
        client.force_release(f"lost-{number}")
        leases.append(lease)
    return notified.wait(10)

leases = []
client = redlock.Redlock("memory://")
renewing = client.lock("renewing", ttl=0.3).acquire()
seen = {"call": outcome(lambda: panic("call")), "wait": outcome(lambda: panic("wait"))}
seen["batch"], seen["other"] = asyncio.run(batch())
seen["callback"] = callback()
renewed = client.stats().renewed
while renewing.held and client.stats().renewed < renewed + 3:
    pass
seen["renewed"] = renewing.held
renewing.release()
with client.lock("afterwards") as lease: seen["next"] = lease.held
print(json.dumps(seen))
"""


def test_panic_raises_an_exception_and_everything_else_continues() -> None:
    process = run(PANICS)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    seen = json.loads(out)
    kind, _, text = seen["call"]
    assert kind == "PanicException"
    assert "a deliberate panic in a call" in text
    for kind, code, text in [seen["wait"], *seen["batch"]]:
        assert (kind, code) == ("LockError", "internal")
        assert "internal error" in text
    assert len(seen["batch"]) == 4
    assert [seen[what] for what in ("other", "callback", "renewed", "next")] == [True] * 4
    # The log has the panic's own text.
    assert err.count("a deliberate panic in") >= 6, err
