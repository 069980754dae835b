"""Functions that make a coroutine, shown as the coroutine functions that they are to their callers.

A coroutine that runs as a task has no caller on the stack. A lease shows where it was acquired, so the line is read at
the call, when the coroutine is made.
"""

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

#: The flag by which `inspect` recognises an `async def`.
_CO_COROUTINE = 0x80


def coroutine_function(function: "_F") -> "_F":
    """Has `inspect.iscoroutinefunction` return true for a function that returns a coroutine.

    Python 3.11 has no other way, and later ones only by `inspect`, whose import takes longer than all the rest. The
    flag does not change what a call does: the code of an `async def` makes its coroutine by an instruction.
    """
    code = function.__code__
    function.__code__ = code.replace(co_flags=code.co_flags | _CO_COROUTINE)
    return function


def line_of(frame: "FrameType") -> "tuple[str, int | None]":
    """The file and the line that this frame is at."""
    return frame.f_code.co_filename, frame.f_lineno
