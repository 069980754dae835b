"""Passes functions and coroutine functions of every kind as callbacks. With an argument, `inspect` is imported before.

Fails if a coroutine function is accepted, if another one is refused, or if the package has imported `inspect`.
"""

import importlib
import sys
from functools import partial
from typing import Any

import redlock

loads = len(sys.argv) > 1
if loads:
    importlib.import_module("inspect")


async def asynchronous(_: object) -> None: ...


def plain(_: object) -> None: ...


class Kinds:
    async def method(self, _: object) -> None: ...

    def plain(self, _: object) -> None: ...


class Calls:
    async def __call__(self, _: object) -> None: ...


refused: list[Any] = [
    asynchronous,
    Kinds().method,
    partial(asynchronous),
    partial(Kinds().method),
    Calls(),
]
accepted: list[Any] = [plain, lambda _: None, Kinds().plain, partial(plain), print, Kinds]
lease = redlock.Redlock("memory://").lock("job").acquire()
for function in refused:
    try:
        lease.on_lost(function)
    except redlock.InvalidOption:
        continue
    sys.exit(f"{function} was accepted")
for function in accepted:
    lease.on_lost(function)()
for function in refused:
    try:
        redlock.Redlock("redis://127.0.0.1", credentials=function)
    except redlock.InvalidOption:
        continue
    sys.exit(f"credentials={function} was accepted")
assert ("inspect" in sys.modules) == loads
lease.release()
