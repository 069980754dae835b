"""Marks functions that return a coroutine as coroutine functions.

A lease shows the line that acquired it. A coroutine that runs as a task has no caller on the stack, so the line is read
at the call, when the coroutine is created.
"""

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

#: The flag by which `inspect` recognises an `async def`.
_CO_COROUTINE = 0x80


def coroutine_function(function: "_F") -> "_F":
    """Makes `inspect.iscoroutinefunction` return true for a function that returns a coroutine.

    Python 3.11 has no other way. Later versions need `inspect`, whose import takes longer than all the rest. The flag
    does not change what a call does, because an instruction in the code of an `async def` creates its coroutine.

    Args:
        function: The function to mark.

    Returns:
        A copy of the function, because Python 3.13 deprecates another kind of code in the same function.
    """
    code = function.__code__.replace(co_flags=function.__code__.co_flags | _CO_COROUTINE)
    make: Any = type(function)
    marked: _F = make(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    # Python 3.14 evaluates annotations on demand.
    annotations = "__annotate__" if hasattr(function, "__annotate__") else "__annotations__"
    for name in ("__qualname__", "__kwdefaults__", annotations):
        setattr(marked, name, getattr(function, name))
    return marked
