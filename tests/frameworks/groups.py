"""A service in a separate process group. Tests start it, kill parts of it or all of it, ask it to end, and start it
again.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

#: Time limit for an orderly end.
END_LIMIT = 20.0


class Group:
    """One program with all its children."""

    def __init__(
        self, words: list[str], log: Path, answers: Callable[[], bool], **popen: object
    ) -> None:
        self.words, self.log, self.answers, self.popen = words, log, answers, popen
        self.start()

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(  # type: ignore[call-overload]
                self.words, stdout=log, stderr=log, start_new_session=True, **self.popen
            )

    def ready(self) -> None:
        """Waits until it answers."""
        end = time.monotonic() + 3 * END_LIMIT
        while not self.answers():
            assert self.process.poll() is None, f"it ended: {self.said()}"
            assert time.monotonic() < end, f"it hangs as it starts: {self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text()[-3000:]

    def children(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, IndexError):
                continue
            if entry.name.isdigit() and int(stat[1]) == self.process.pid:
                found.append(int(entry.name))
        return found

    def kill_one(self, chosen: Callable[[list[int]], int]) -> bool:
        """Sends SIGKILL to one of the children. Returns false if none exists now."""
        if children := self.children():
            try:
                os.kill(chosen(children), signal.SIGKILL)
            except ProcessLookupError:
                return False
        return bool(children)

    def kill(self) -> None:
        """Sends SIGKILL to all at once, like a machine that crashes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> float:
        """Sends SIGTERM to the first process and returns how long it takes to end. Kills the remaining processes."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs as it ends: {self.said()}") from None
        took = time.monotonic() - began
        self.kill()
        return took
