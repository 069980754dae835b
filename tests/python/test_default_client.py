"""The default client is looked up at each acquire. The tests use separate processes, because each process has one."""

import pytest

from tests.servers import Server

from .processes import output_of

#: Code that holds and inspects a lock.
BLOCKING = """
import redlock
def held(lock):
    with lock as lease: return lease
def look(lock): return lock.inspect()
"""
IN_A_LOOP = """
import asyncio, redlock
def held(lock):
    async def main():
        async with lock as lease: return lease
    return asyncio.run(main())
def look(lock):
    async def main(): return await lock.as_async().inspect()
    return asyncio.run(main())
"""
ways = pytest.mark.parametrize("way", [BLOCKING, IN_A_LOOP], ids=["sync", "async"])


@ways
def test_lock_can_be_created_before_configure(way: str) -> None:
    code = """
lock = redlock.lock("early", ttl=5)
redlock.configure("memory://", key_prefix="p:")
print(held(lock).key)
try: redlock.configure("memory://other")
except redlock.InvalidOption as error: print("replace=True" in str(error))
redlock.configure("memory://other", key_prefix="q:", replace=True)
print(held(lock).key)
"""
    assert output_of(way + code) == "p:early\nTrue\nq:early\n"


@ways
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
def test_environment_variables_select_the_nodes(
    way: str, variables: dict[str, str], nodes: str
) -> None:
    code = """
held(redlock.lock("x"))
print([node.url for node in look(redlock.lock("x")).nodes])
"""
    assert output_of(way + code, **variables) == nodes + "\n"


@ways
@pytest.mark.parametrize("variable", ["REDIS_URL", "REDLOCK_NODES"])
def test_error_names_the_variable_with_an_invalid_url(way: str, variable: str) -> None:
    code = """
try: held(redlock.lock("x"))
except redlock.InvalidOption as error: print(error)
"""
    out = output_of(way + code, **{variable: "redis://b:s3cret"})
    assert out.startswith(f"the environment variable {variable} is wrong: ")
    assert "s3cret" not in out


@ways
def test_selected_nodes_are_logged_once_without_the_password(
    way: str, redis_server: Server
) -> None:
    code = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
for _ in range(3):
    try: held(redlock.lock("x", ttl=0.5, wait=0))
    except redlock.QuorumUnavailable: pass
"""
    out = output_of(way + code, REDIS_URL=f"redis://:secret@127.0.0.1:{redis_server.port}")
    assert out.count("default client") == 1
    assert "secret" not in out


LOGGED = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
CHOICE
for _ in range(3):
    try: held(redlock.lock("x", ttl=0.5, wait=0))
    except redlock.QuorumUnavailable: pass
"""


@ways
def test_fallback_to_the_local_server_logs_one_warning(way: str) -> None:
    out = output_of(way + LOGGED.replace("CHOICE", ""))
    (warned,) = [line for line in out.splitlines() if "neither REDLOCK_NODES nor REDIS_URL" in line]
    assert warned.startswith("WARNING")
    assert "configure()" in warned
    assert "redis://127.0.0.1:6379" in warned


@ways
@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ("", {"REDIS_URL": "memory://"}),
        ("", {"REDLOCK_NODES": "memory://"}),
        ('redlock.configure("memory://")', {}),
    ],
)
def test_configured_nodes_log_no_warning(way: str, chosen: str, variables: dict[str, str]) -> None:
    out = output_of(way + LOGGED.replace("CHOICE", chosen), **variables)
    assert "INFO the default client's nodes: memory://" in out
    assert "WARNING" not in out


def test_fallback_is_the_local_server() -> None:
    code = """
import redlock
print(redlock.lock("x").key)
try: redlock.lock("x", ttl=0.5, wait=0).inspect()
except redlock.QuorumUnavailable as error: print(error.nodes[0].url)
else: print("redis://127.0.0.1:6379")
"""
    assert output_of(code).splitlines()[0] == "lock:x"
    assert "redis://127.0.0.1:6379" in output_of(code)
