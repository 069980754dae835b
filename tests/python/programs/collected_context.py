"""A handler is slow for one record, while the collector clears the context of a lease whose record waits."""

import contextvars
import gc
import logging
import threading

import redlock

REQUEST = contextvars.ContextVar("REQUEST", default="none")
REQUEST.set("42")
begun, gate, done = threading.Event(), threading.Event(), threading.Event()
seen: set[tuple[str, str]] = set()


class Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        begun.set()
        gate.wait(10)
        key = record.getMessage().rpartition(":")[2].split()[0]
        seen.add((key, REQUEST.get()))
        if key == "last":
            done.set()


class Job:
    def __init__(self, name: str) -> None:
        self.itself = self
        self.lease = client.lock(name).acquire()
        self.lease.release()


logger = logging.getLogger("redlock")
logger.addHandler(Handler())
logger.setLevel(logging.DEBUG)
client = redlock.Redlock("memory://")
first = Job("first")
begun.wait(10)
Job("cycle")
gc.collect()
gate.set()
last = Job("last")
done.wait(10)
print(sorted(seen))
