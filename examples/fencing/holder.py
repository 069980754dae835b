"""Acquires the lock, writes, and writes again on a command: holder.py REDIS STORE"""

import sys
import urllib.error
import urllib.request

import redlock

redis, store = sys.argv[1:]
lock = redlock.Redlock(redis).lock("row:42", ttl=1.5, fencing=True)


def write(lease: redlock.Lease) -> None:
    headers = {"Fencing-Token": str(lease.fencing_token)}
    request = urllib.request.Request(f"{store}/row:42", b"python", headers, method="PUT")
    try:
        urllib.request.urlopen(request).close()
        say("wrote", lease.fencing_token)
    except urllib.error.HTTPError as error:
        with error:
            say("refused" if error.code == 412 else "failed", error.code)


def say(*words: object) -> None:
    print(*words, flush=True)


try:
    with lock as lease:
        write(lease)
        lease.ensure_held()
        say("holds", lease.key)
        # Stands for any pause between a check and its write. Here the process waits for one line from the demo.
        sys.stdin.readline()
        write(lease)
    say("released", lease.key)
except redlock.LockLost as loss:
    say("lost", loss.reason)
