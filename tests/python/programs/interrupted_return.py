"""Interrupts a call between the grant and its return: interrupted_return.py acquire|try_acquire|with|stack.

The observer of acquires sets the flag of Ctrl-C. It is not Python code, so the handler runs in the caller, after the
call. Prints the lease that the program received, whether the key stayed, and the number of leases.
"""

import contextlib
import ctypes
import sys
import warnings
from typing import Any

import redlock
from redlock import _native

warnings.simplefilter("error")
call = sys.argv[1]
client = redlock.Redlock("memory://")
lock = client.lock("job", ttl=300)
interrupt: Any = ctypes.pythonapi.PyErr_SetInterrupt
interrupt.argtypes, interrupt.restype = [ctypes.py_object] * 5, None
lease: Any = None

_native._observe_by(interrupt)
try:
    if call == "acquire":
        lease = lock.acquire()
    elif call == "try_acquire":
        lease = lock.try_acquire()
    elif call == "with":
        with lock.acquire() as lease:
            pass
    else:
        with contextlib.ExitStack() as stack:
            lease = stack.enter_context(lock)
except KeyboardInterrupt:
    _native._observe_by(None)
    print(lease, lock.inspect().held, len(client.leases()))
