"""Interrupts each step of `enter_context`, and prints the steps that kept the key: interrupted_stack.py sync|async.

A step is a line of contextlib, or a call of a function there or in the package.
"""

import asyncio
import contextlib
import sys
from types import FrameType
from typing import Any

import redlock

client = redlock.Redlock("memory://")
FILES = (contextlib.__file__, redlock.__file__.removesuffix("__init__.py"))


class Interrupts:
    """Raises at one step, as a signal handler may."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.step = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if event == "call" and not file.startswith(FILES):
            return None
        # The package itself relies on the fact that a signal handler runs only at calls.
        if event == "call" or (event == "line" and file == FILES[0]):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                self.step = f"{frame.f_code.co_name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def is_free(at: int) -> bool:
    other = client.lock(f"job{at}").try_acquire()
    if other is not None:
        other.release()
    return other is not None


def enter(at: int) -> tuple[str, bool]:
    """Returns the interrupted step and whether its lock is free, while the exception still exists."""
    interrupts = Interrupts(at)
    try:
        with contextlib.ExitStack() as stack:
            sys.settrace(interrupts)
            stack.enter_context(lock(at))
            sys.settrace(None)
    except KeyboardInterrupt:
        return interrupts.step, is_free(at)
    return "", True


async def aenter(at: int) -> tuple[str, bool]:
    interrupts = Interrupts(at)
    try:
        async with contextlib.AsyncExitStack() as stack:
            sys.settrace(interrupts)
            await stack.enter_async_context(lock(at))
            sys.settrace(None)
    except KeyboardInterrupt:
        return interrupts.step, is_free(at)
    return "", True


def lock(at: int) -> redlock.Lock:
    """Returns a lock that exists until the end of the process."""
    locks[at] = client.lock(f"job{at}")
    return locks[at]


locks: dict[int, redlock.Lock] = {}
kept, seen = [], set()
for number in range(1, 300):
    step, free = enter(number) if sys.argv[1] == "sync" else asyncio.run(aenter(number))
    seen.add(step.partition(":")[0])
    if not free:
        kept.append(step)
    if not step:
        break
print(kept, {"", "_push_exit_callback"} <= seen, client.leases())
