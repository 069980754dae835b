"""The command line of the wheel. `tests/rust/cli` tests the commands themselves."""

import os
import signal
import subprocess
import sys

import pytest

from tests.servers import Server


def redlock(server: Server, *words: str) -> list[str]:
    # The tests may run under nohup, or in the background of a script, where some signals are ignored.
    start = ["env", "--default-signal", sys.executable, "-m", "redlock"]
    return [*start, *words[:1], "--url", server.url, *words[1:]]


def test_command_has_its_status_and_its_lock(redis_server: Server, name: str) -> None:
    script = "echo $REDLOCK_NAME; exit 7"
    words = redlock(redis_server, "run", name, "--", "sh", "-c", script)
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{name}\n", "")


def test_wrong_arguments_name_the_command() -> None:
    words = [sys.executable, "-m", "redlock", "run", "--ttl", "soon", "job", "true"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, "'soon' for '--ttl <TIME>'" in done.stderr) == (64, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("waits", [False, True])
def test_signal_ends_the_command(
    redis_server: Server, name: str, number: signal.Signals, waits: bool
) -> None:
    """A Ctrl-C too, of which Python would only set a flag."""
    hold = redlock(redis_server, "run", name, "--", "sh", "-c", "echo ready; exec cat")
    with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        if not waits:
            os.kill(holder.pid, number)
            # Before its input is closed, which would end it too.
            holder.wait()
        else:
            watch = redlock(redis_server, "ls", "--watch", "--json", name)
            with subprocess.Popen(watch, stdout=subprocess.PIPE) as watching:
                assert watching.stdout is not None
                assert name.encode() in watching.stdout.readline()
                os.kill(watching.pid, number)
                assert watching.wait() == -number
            holder.stdin.close()  # type: ignore[union-attr]
    assert holder.returncode == (0 if waits else -number)
