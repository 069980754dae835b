"""Interrupts an `async with` at the start of each function of the package, and prints the calls that kept the key."""

import asyncio
import sys
from types import FrameType
from typing import Any

import redlock

client = redlock.Redlock("memory://")
package = redlock.__file__.removesuffix("__init__.py")


class Interrupts:
    """Raises at the start of one function, as a signal handler may."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.function = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                self.function = frame.f_code.co_name
                raise KeyboardInterrupt
        return None


async def enter(at: int, lock: Any) -> tuple[str, bool]:
    """Returns the interrupted function and whether its lock is free, while the exception still exists."""
    interrupts = Interrupts(at)
    sys.settrace(interrupts)
    try:
        async with lock:
            sys.settrace(None)
    except KeyboardInterrupt:
        # The exception, and with it the frames that it passed, exist until the end of this block.
        other = await client.lock(f"job{at}").as_async().try_acquire()
        if other is not None:
            await other.release()
        return interrupts.function, other is not None
    return "", True


async def main() -> None:
    kept, seen = [], set()
    for at in range(1, 100):
        function, free = await enter(at, client.lock(f"job{at}"))
        seen.add(function)
        if not free:
            kept.append(function)
        if not function:
            break
    print(kept, "__aenter__" in seen and "" in seen)


asyncio.run(main())
