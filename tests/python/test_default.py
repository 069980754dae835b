"""The default client: looked up at each acquire. In processes of their own, as it is the process's."""

import os
import subprocess
import sys

import pytest

from .servers import Server


def output(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RED")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_lock_may_be_made_before_configure() -> None:
    code = """
import redlock
lock = redlock.lock("early", ttl=5)
redlock.configure("memory://", key_prefix="p:")
with lock as lease: print(lease.key)
try: redlock.configure("memory://other")
except redlock.InvalidOption as error: print("replace=True" in str(error))
redlock.configure("memory://other", key_prefix="q:", replace=True)
with lock as lease: print(lease.key)
"""
    assert output(code) == "p:early\nTrue\nq:early\n"


@pytest.mark.parametrize(
    ("variables", "nodes"),
    [
        (
            {"REDLOCK_NODES": "memory://a,memory://b memory://c"},
            "['memory://a', 'memory://b', 'memory://c']",
        ),
        ({"REDLOCK_NODES": "memory://a", "REDIS_URL": "memory://b"}, "['memory://a']"),
        ({"REDIS_URL": "memory://b"}, "['memory://b']"),
    ],
)
def test_the_environment_chooses(variables: dict[str, str], nodes: str) -> None:
    code = """
import redlock
with redlock.lock("x"): print([node.url for node in redlock.lock("x").inspect().nodes])
"""
    assert output(code, **variables) == nodes + "\n"


def test_the_choice_is_logged_once_and_redacted(redis_server: Server) -> None:
    code = """
import logging, sys, time, redlock
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
for _ in range(3):
    try: redlock.lock("x", ttl=0.5).acquire(wait=0).release()
    except redlock.QuorumUnavailable: pass
time.sleep(0.2)
"""
    out = output(code, REDIS_URL=f"redis://:secret@127.0.0.1:{redis_server.port}")
    assert out.count("default client") == 1
    assert "secret" not in out


LOGGED = """
import logging, sys, time, redlock
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
CHOICE
for _ in range(3):
    try: redlock.lock("x", ttl=0.5).acquire(wait=0).release()
    except redlock.QuorumUnavailable: pass
time.sleep(0.2)
"""


def test_the_last_resort_is_a_warning_once() -> None:
    out = output(LOGGED.replace("CHOICE", ""))
    (warned,) = [line for line in out.splitlines() if "neither REDLOCK_NODES nor REDIS_URL" in line]
    assert warned.startswith("WARNING")
    assert "configure()" in warned
    assert "redis://127.0.0.1:6379" in warned


@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ("", {"REDIS_URL": "memory://"}),
        ("", {"REDLOCK_NODES": "memory://"}),
        ('redlock.configure("memory://")', {}),
    ],
)
def test_a_choice_is_no_warning(chosen: str, variables: dict[str, str]) -> None:
    out = output(LOGGED.replace("CHOICE", chosen), **variables)
    assert "INFO the default client's nodes: memory://" in out
    assert "WARNING" not in out


def test_the_last_resort_is_the_local_server() -> None:
    code = """
import redlock
print(redlock.lock("x").key)
try: redlock.lock("x", ttl=0.5, wait=0).inspect()
except redlock.QuorumUnavailable as error: print(error.nodes[0].url)
else: print("redis://127.0.0.1:6379")
"""
    assert output(code).splitlines()[0] == "lock:x"
    assert "redis://127.0.0.1:6379" in output(code)
