"""Builds the name of a decorated function's lock from the arguments of each call, by a template or by a function."""

import inspect
import re
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redlock.errors import InvalidOption

if TYPE_CHECKING:
    from redlock._native import Lock

_Lock = Callable[[tuple[Any, ...], dict[str, Any]], "Lock"]


def naming(lock: "Lock", function: Any) -> _Lock:
    """Returns a function that returns the lock for the arguments of a call."""
    given = lock._given()
    if not isinstance(given, list):
        name_for = _by_function(given, function)
        return lambda args, kwargs: lock._named(name_for(args, kwargs))
    if not any("{" in name or "}" in name for name in given):
        plain = lock._named(given)
        return lambda args, kwargs: plain
    signature = _signature(function)
    for name in given:
        _check(name, signature, function)

    def fill(args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Lock":
        values = _arguments(signature, args, kwargs)
        return lock._named([_TEXT.vformat(name, (), values) for name in given])

    return fill


def _by_function(given: Callable[..., Any], function: Any) -> Callable[..., Any]:
    """Returns a function that calls `given` for the name.

    If all parameters of `given` are also parameters of `function`, it gets those by name. Otherwise it gets all
    arguments of the call unchanged.
    """
    if inspect.iscoroutinefunction(given):
        raise InvalidOption(f"the name is {given!r}, a coroutine function: it must be a plain one")
    try:
        wanted = inspect.signature(given).parameters.values()
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda args, kwargs: given(*args, **kwargs)
    named = all(each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in wanted)
    known = signature.parameters
    if not named or any(each.name not in known for each in wanted if each.default is each.empty):
        return lambda args, kwargs: given(*args, **kwargs)
    names = [each.name for each in wanted if each.name in known]

    def name_for(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = _arguments(signature, args, kwargs)
        return given(**{name: values[name] for name in names})

    return name_for


def _signature(function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidOption(
            f"the parameters of {function!r} are unknown: give a function for the lock's name, which gets "
            "its arguments"
        ) from error


def _arguments(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _fields(name: str) -> list[str]:
    """Returns the fields between a template's braces, in the order of the text."""
    found: list[str] = []
    for _, field, spec, _ in string.Formatter().parse(name):
        if field is not None:
            found += [field, *_fields(spec or "")]
    return found


def _check(name: str, signature: inspect.Signature, function: Any) -> None:
    about = f"the name {name!r} is a template over the arguments of {function!r}"
    escape = "Write '{{' and '}}' for literal braces"
    try:
        fields = _fields(name)
    except ValueError as error:
        raise InvalidOption(f"{about}, and it is invalid ({error}). {escape}") from None
    for field in fields:
        parameter = re.split(r"[.\[]", field)[0]
        if parameter not in signature.parameters:
            known = ", ".join(signature.parameters) or "none"
            raise InvalidOption(
                f"{about}, which has no parameter {parameter!r} (it has: {known}). {escape}"
            )


class _Text(string.Formatter):
    """Rejects values that do not identify anything.

    Two processes would lock different names for a text that contains a memory address. All calls without a value would
    share the lock of None.
    """

    def format_field(self, value: Any, spec: str) -> Any:
        if value is None:
            raise InvalidOption(
                "a value in the lock's name is None, so all calls without a value would share one lock: pass a value"
            )
        text = super().format_field(value, spec)
        if re.search(r" at 0x[0-9a-fA-F]+>", text):
            raise InvalidOption(
                f"the lock's name would contain {text}, whose address differs in every process: name a value that "
                "identifies it, as in '{order.id}'"
            )
        return text


_TEXT = _Text()
