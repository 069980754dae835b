"""A lease is lost while the collector clears it, and its callback before it.

The collector does not track an object without a dictionary. The end of that object runs while the collector clears the
others, of which the callback is the oldest.
"""

import gc
import threading

import redlock

client = redlock.Redlock("memory://")
other, told = client.lock("other").acquire(), threading.Event()
other.on_lost(lambda _: told.set())
called: "list[Job]" = []


class Ends:
    __slots__ = ()

    def __del__(self) -> None:
        client.force_release("cycle")
        client.force_release("other")
        print(told.wait(10))


class Job:
    itself: "Job"
    lease: redlock.Lease
    ends: Ends


def begin() -> None:
    job = Job()

    def callback(_: redlock.LockLost) -> None:
        called.append(job)

    lease = client.lock("cycle").acquire()
    lease.on_lost(callback)
    del callback
    job.itself, job.lease, job.ends = job, lease, Ends()


gc.disable()
begin()
gc.collect()
print(len(called))
