"""Prints how late `on_lost` callbacks run, in ms, while something else is slow or blocked.

Arguments: URL, what is slow, a folder for files.
"""

import logging
import os
import sys
import threading
import time
from pathlib import Path

import redlock

LOSSES = 20
#: Seconds until a callback counts as not called.
LIMIT = 15.0

url, slow, folder = sys.argv[1:]
client = redlock.Redlock(url)


class Sleeps(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        time.sleep(0.001)


def full_pipe() -> int:
    """Returns the writing end of a pipe without room."""
    _, end = os.pipe()
    os.set_blocking(end, False)
    try:
        while os.write(end, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(end, True)
    return end


def busy(number: int) -> None:
    while True:
        with client.lock(f"busy-{number}"):
            pass


if slow == "file":
    logging.basicConfig(level=logging.DEBUG, filename=Path(folder) / "log")
elif slow == "handler":
    logging.basicConfig(level=logging.DEBUG, handlers=[Sleeps()])
elif slow == "pipe":
    os.dup2(full_pipe(), 2)
    logging.basicConfig(level=logging.DEBUG)
elif slow == "callback":
    entered = threading.Event()
    other = redlock.Redlock(url)
    blocking = other.lock("blocking").acquire()
    blocking.on_lost(lambda _: (entered.set(), threading.Event().wait()))
    other.force_release("blocking")
    assert entered.wait(LIMIT)
for number in range(4):
    threading.Thread(target=busy, args=(number,), daemon=True).start()


def lateness(number: int) -> "float | None":
    """Loses a lease. Returns how long after its end the callback ran, in seconds, or None if it did not."""
    late: list[float] = []
    told = threading.Event()
    lease = client.lock(f"lost-{number}", ttl=0.2, renew=False).acquire()
    expected = time.monotonic() + lease.remaining

    def note(_: redlock.LockLost) -> None:
        late.append(time.monotonic() - expected)
        told.set()

    lease.on_lost(note)
    return late[0] if told.wait(LIMIT) else None


for number in range(LOSSES):
    late = lateness(number)
    print("never" if late is None else round(late * 1000), flush=True)
    if late is None:
        break
os._exit(0)
