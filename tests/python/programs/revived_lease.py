"""An object in a cycle with a lease is collected, and its end makes both reachable again. Then the lease is lost."""

import gc
import threading

import redlock

client = redlock.Redlock("memory://")
told = threading.Event()
revived: "list[Job]" = []


class Job:
    def __init__(self) -> None:
        self.itself = self
        self.lease = client.lock("job").acquire()
        self.lease.on_lost(lambda _: told.set())

    def __del__(self) -> None:
        revived.append(self)


Job()
gc.collect()
client.force_release("job")
print(told.wait(10), len(revived))
