"""Runs the command line `redlock`, as `python -m redlock` and as the console script of the package."""

import signal
import sys
from typing import Never

from redlock._native import _command_line


def main() -> Never:
    """Runs the command line of this process, and ends the process with its status."""
    # Python's handler of Ctrl-C only sets a flag, which native code does not read. An ignored signal stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _command_line(sys.argv)


if __name__ == "__main__":
    main()
