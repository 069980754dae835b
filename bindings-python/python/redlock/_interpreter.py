"""Refuses to be imported in a subinterpreter.

The native module has one state for each process. In a second interpreter, exceptions would have the classes of the
first one. This is checked before the native module is imported, because its import in a subinterpreter would make later
imports in the main interpreter fail.
"""

import _thread

#: What to set where a server runs programs in subinterpreters.
_INSTEAD = (
    "redlock cannot be used in a subinterpreter. Use the main interpreter: with mod_wsgi, set "
    "'WSGIApplicationGroup %{GLOBAL}'. With uWSGI, set 'single-interpreter = true'"
)


def _is_main() -> bool:
    known = getattr(_thread, "_is_main_interpreter", None)
    if known is not None:
        return bool(known())
    # Python 3.11.
    try:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


if not _is_main():
    raise ImportError(_INSTEAD, name="redlock")
