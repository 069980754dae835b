"""Logs the core's events: one logger for each topic, whose levels the core stores.

Core checks the level before it creates a record, on a thread that must never wait for Python. Core therefore stores
the levels. When the level of a logger or of its parents changes, `logging` clears its cache, and we update core.
"""

import sys

from redlock import _native
from redlock._native import _log_from

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from contextvars import Context
    from typing import Any

    # The file, the line and the function of a call.
    Line = tuple[str, int, str]
    Emit = Callable[
        [str, int, str, tuple[object, ...], dict[str, object], Line | None, Context | None], None
    ]
    Subscriber = Callable[[str, str, dict[str, object]], None]

TOPICS = ("acquire", "lease", "node", "client")
# More than any level.
NEVER = 1_000_000
# The functions that receive each event of a topic, regardless of the level of its logger.
_subscribers: "dict[str, Subscriber]" = {}
_loggers: "dict[str, logging.Logger]" = {}


def subscribe(topic: str, subscriber: "Subscriber | None") -> None:
    """Sets the function that receives each event of this topic, on the log thread. None removes it."""
    if subscriber is None:
        _subscribers.pop(topic, None)
    else:
        _subscribers[topic] = subscriber
    if topic in _loggers:
        _update_core(topic, _loggers[topic])


def _update_core(topic: str, logger: "logging.Logger") -> None:
    """Sends the logger's current level to the core."""
    # Repeats until core has the current level, because another thread may change the level in between. A lock would
    # stay locked if this thread were interrupted here.
    reported = None
    while reported != (wanted := _wanted(topic, logger)):
        _log_from(topic, wanted)
        reported = wanted


def _wanted(topic: str, logger: "logging.Logger") -> int:
    if topic in _subscribers:
        return 0
    if logger.disabled:
        return NEVER
    return max(logger.getEffectiveLevel(), logger.manager.disable + 1)


class _LevelCache(dict[int, bool]):
    """What `logging` knows of a logger, by level: forgotten whenever a level changes."""

    def __init__(self, changed: "Callable[[], None]") -> None:
        super().__init__()
        self.changed = changed

    def clear(self) -> None:
        super().clear()
        self.changed()


def _protected_class(kind: "type[logging.Logger]") -> "type[logging.Logger]":
    """Returns a class of loggers that `dictConfig` and `fileConfig` do not disable unless they name them.

    Otherwise a program would not log lost leases. The root logger's format is better than no record.
    """

    def disabled(logger: "logging.Logger") -> bool:
        return bool(logger.__dict__.get("disabled"))

    def disable(logger: "logging.Logger", disabled: bool) -> None:
        by = sys._getframe(1).f_globals.get("__name__")
        if disabled and by == "logging.config":
            return
        logger.__dict__["disabled"] = disabled
        memory = logger.__dict__.get("_cache")
        if isinstance(memory, _LevelCache):
            memory.changed()

    return type(kind.__name__, (kind,), {"disabled": property(disabled, disable)})


def _watched(topic: str) -> "logging.Logger":
    import logging

    logger = logging.getLogger(f"redlock.{topic}")
    if isinstance(getattr(logger, "_cache", None), _LevelCache):
        return logger
    try:
        logger.__class__ = _protected_class(type(logger))
        logger._cache = _LevelCache(lambda: _update_core(topic, logger))  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        # This class of loggers does not report changes. Its level is read now, and after each record.
        pass
    return logger


def _log(
    logger: "logging.Logger",
    level: int,
    template: str,
    args: "tuple[Any, ...]",
    values: dict[str, object],
    line: "Line | None",
) -> None:
    file, number, function = line or ("redlock", 0, "redlock")
    record = logger.makeRecord(logger.name, level, file, number, template, args, None, function)
    # Not as `extra`, which rejects a name that a custom record factory has set.
    for name, value in values.items():
        record.__dict__.setdefault(name, value)
    logger.handle(record)


def _emit(
    topic: str,
    level: int,
    template: str,
    args: "tuple[Any, ...]",
    values: dict[str, object],
    line: "Line | None",
    context: "Context | None",
) -> None:
    logger = _loggers[topic]
    try:
        # It may have changed since.
        if logger.isEnabledFor(level):
            if context is None:
                _log(logger, level, template, args, values, line)
            else:
                # Filters and handlers read the request and the trace of the call from its context variables.
                context.run(_log, logger, level, template, args, values, line)
    finally:
        if (subscriber := _subscribers.get(topic)) is not None:
            subscriber(topic, template.partition(" key=")[0], values)
        _update_core(topic, logger)


def _start() -> "Emit":
    for topic in TOPICS:
        _loggers[topic] = _watched(topic)
        _update_core(topic, _loggers[topic])
    return _emit


_native._log_by(_start)
