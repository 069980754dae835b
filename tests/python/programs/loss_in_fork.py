"""A forked child calls its loss callback while one of the parent blocks. Prints the status of the child."""

import os
import threading

import redlock

entered = threading.Event()
client = redlock.Redlock("memory://")
lease = client.lock("blocks").acquire()
lease.on_lost(lambda _: (entered.set(), threading.Event().wait()))
client.force_release("blocks")
assert entered.wait(20)
child = os.fork()
if child == 0:
    told = threading.Event()
    lease = client.lock("child").acquire()
    lease.on_lost(lambda _: told.set())
    client.force_release("child")
    os._exit(0 if told.wait(20) else 1)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
