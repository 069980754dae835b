"""Core's events as records of `logging`: one logger for each topic, and what those loggers want of core.

Core checks the level before it creates a record, on a thread that must never wait for Python. Core therefore stores
the levels. When the level of a logger or of its parents changes, `logging` clears its cache, and we update core.
"""

import sys

from redlock import _native
from redlock._native import _log_from

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any

    Emit = Callable[[str, int, str, tuple[object, ...], dict[str, object]], None]
    Hearer = Callable[[str, str, dict[str, object]], None]

TOPICS = ("acquire", "lease", "node", "client")
# More than any level.
NEVER = 1_000_000
# The functions that receive each event of a topic, regardless of the level of its logger.
_hearers: "dict[str, Hearer]" = {}
_loggers: "dict[str, logging.Logger]" = {}


def hear(topic: str, hearer: "Hearer | None") -> None:
    """Sets the function that receives each event of this topic, on the log thread. None removes it."""
    if hearer is None:
        _hearers.pop(topic, None)
    else:
        _hearers[topic] = hearer
    if topic in _loggers:
        _tell(topic, _loggers[topic])


def _tell(topic: str, logger: "logging.Logger") -> None:
    """Tells core what the logger wants now."""
    # Repeats until core has the current level, because another thread may change the level in between. A lock would
    # stay locked if this thread were interrupted here.
    told = None
    while told != (wanted := _wanted(topic, logger)):
        _log_from(topic, wanted)
        told = wanted


def _wanted(topic: str, logger: "logging.Logger") -> int:
    if topic in _hearers:
        return 0
    if logger.disabled:
        return NEVER
    return max(logger.getEffectiveLevel(), logger.manager.disable + 1)


class _Memory(dict[int, bool]):
    """What `logging` knows of a logger, by level: forgotten whenever a level changes."""

    def __init__(self, changed: "Callable[[], None]") -> None:
        super().__init__()
        self.changed = changed

    def clear(self) -> None:
        super().clear()
        self.changed()


def _lasting(kind: "type[logging.Logger]") -> "type[logging.Logger]":
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
        if isinstance(memory, _Memory):
            memory.changed()

    return type(kind.__name__, (kind,), {"disabled": property(disabled, disable)})


def _watched(topic: str) -> "logging.Logger":
    import logging

    logger = logging.getLogger(f"redlock.{topic}")
    if isinstance(getattr(logger, "_cache", None), _Memory):
        return logger
    try:
        logger.__class__ = _lasting(type(logger))
        logger._cache = _Memory(lambda: _tell(topic, logger))  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        # Of a kind that cannot be watched: what it wants is asked for now, and whenever it has logged.
        pass
    return logger


def _log(
    logger: "logging.Logger",
    level: int,
    template: str,
    args: "tuple[Any, ...]",
    values: dict[str, object],
) -> None:
    record = logger.makeRecord(logger.name, level, "redlock", 0, template, args, None, "redlock")
    # Not as `extra`, which rejects a name that a custom record factory has set.
    for name, value in values.items():
        record.__dict__.setdefault(name, value)
    logger.handle(record)


def _emit(
    topic: str, level: int, template: str, args: "tuple[Any, ...]", values: dict[str, object]
) -> None:
    logger = _loggers[topic]
    try:
        # It may have changed since.
        if logger.isEnabledFor(level):
            _log(logger, level, template, args, values)
    finally:
        if (hearer := _hearers.get(topic)) is not None:
            hearer(topic, template.partition(" key=")[0], values)
        _tell(topic, logger)


def _start() -> "Emit":
    for topic in TOPICS:
        _loggers[topic] = _watched(topic)
        _tell(topic, _loggers[topic])
    return _emit


_native._log_by(_start)
