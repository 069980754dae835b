"""Interrupts the import of a module by the first client, and then loses a lease of another client."""

import sys
from _queue import SimpleQueue

import redlock


class Interrupting:
    """Raises KeyboardInterrupt at the next import of this module."""

    def __init__(self, module: str) -> None:
        self.module = module

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.module:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt


def lose() -> None:
    told: SimpleQueue[redlock.LockLost] = SimpleQueue()
    client = redlock.Redlock("memory://")
    lease = client.lock("job").acquire()
    lease.on_lost(told.put)
    client.close()
    # In one piece, because the log is written to the same stream by another thread.
    sys.stdout.write(f"notified {told.get(timeout=10).reason}\n")


sys.modules.pop(sys.argv[1], None)
sys.meta_path.insert(0, Interrupting(sys.argv[1]))  # type: ignore[arg-type]
try:
    lose()
except KeyboardInterrupt:
    print("interrupted")
# Imported here, because `redlock` is to import it first.
__import__("logging").basicConfig(stream=sys.stdout, format="%(message)s")
lose()
