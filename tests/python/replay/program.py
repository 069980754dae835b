"""A separate process: `program.py URL NAME WHAT EFFECT [HOW_MANY]` performs one action and prints what it saw."""

import os
import sys
import time
import warnings

url, name, what, effect, *more = sys.argv[1:]
if effect == "gevent":
    from gevent import monkey

    monkey.patch_all()
elif effect == "eventlet":
    # It emits a warning.
    warnings.simplefilter("ignore")
    import eventlet

    eventlet.monkey_patch()

import redis  # noqa: E402
import redlock  # noqa: E402

outside = redis.Redis(port=int(url.rpartition(":")[2]), decode_responses=True, protocol=2)


def hold(ttl: float, seconds: float) -> None:
    """Runs a `with`, and prints the server's state during and after it."""
    with redlock.Redlock(url, key_prefix="") as client:
        with client.lock(name, ttl=ttl) as lease:
            time.sleep(seconds)
            print(outside.get(name) == lease.token, flush=True)
            if what == "linger":
                time.sleep(0.5)
        if what != "linger":
            print(outside.exists(name) == 1, flush=True)


def crowd(how_many: int, keeps: bool) -> None:
    """Starts this many children at once. Each prints how many hold the lock, including itself."""
    start = time.monotonic() + 2
    children = []
    for _ in range(how_many):
        child = os.fork()
        if child:
            children.append(child)
            continue
        try:
            time.sleep(max(0, start - time.monotonic()))
            lease = redlock.Redlock(url, key_prefix="").lock(name, wait=60).acquire()
            holders = outside.incr(f"{name}-holders")
            os.write(1, f"{holders}\n".encode())
            if keeps:
                time.sleep(60)
            time.sleep(0.001)
            outside.decr(f"{name}-holders")
            lease.release()
        finally:
            os._exit(0)
    if keeps:
        # On a busy machine, the first acquire takes a while.
        while outside.get(f"{name}-holders") is None:
            time.sleep(0.01)
        time.sleep(1)
        for child in children:
            os.kill(child, 9)
    for child in children:
        os.waitpid(child, 0)


if what == "try":
    print(redlock.Redlock(url, key_prefix="").lock(name).try_acquire())
elif what == "renew":
    hold(0.3, 0.9)
elif what in ("crowd", "keep"):
    crowd(int(more[0]), what == "keep")
else:
    hold(10, 0.1)
