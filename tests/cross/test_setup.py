"""scripts/setup: which system packages it installs, and what it prints before."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The programs that the script needs.
TOOLS = ["bash", "dirname", "sort", "head", "cut", "tr", "uname", "env"]
TOOLS += ["python3", "cargo", "rustc", "node", "npm", "cc"]
FAKE = '#!/bin/sh\necho "$0 $*" >>"$LOG"\n'


class Machine:
    """A PATH with these programs, with fakes that log their calls, and without redis-server and valgrind."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.log.touch()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None, tool
            # A script, not a link, because rustup's proxies depend on their own name and path.
            (self.bin / tool).write_text(f'#!/bin/sh\nexec "{found}" "$@"\n')
            (self.bin / tool).chmod(0o755)

    def fake(self, name: str, body: str = "") -> None:
        (self.bin / name).write_text(FAKE + body)
        (self.bin / name).chmod(0o755)

    def setup(self, *words: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {"PATH": str(self.bin), "LOG": str(self.log)}
        return subprocess.run(
            [shutil.which("bash") or "bash", str(ROOT / "scripts/setup"), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def calls(self) -> list[str]:
        return [line.replace(f"{self.bin}/", "") for line in self.log.read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_installs_a_missing_server_after_saying_so_and_why(machine: Machine) -> None:
    machine.fake("id", "echo 0\n")
    machine.fake("apt-get")
    done = machine.setup()
    assert done.returncode == 0, done.stdout
    why, what, *_ = done.stdout.splitlines()
    assert why.startswith("redis-server is not installed: the demo and the tests start throw-away")
    assert what.endswith("will be installed now: apt-get install -y redis-server")
    installs = [call for call in machine.calls() if call.startswith("apt-get")]
    assert installs == ["apt-get update -qq", "apt-get install -y redis-server"]


def test_without_root_names_the_command_to_run(machine: Machine) -> None:
    machine.fake("id", "echo 1000\n")
    machine.fake("sudo", "exit 1\n")
    machine.fake("apt-get")
    done = machine.setup()
    assert done.returncode == 1
    assert "missing: redis-server (the demo and the tests" in done.stdout
    assert "run: sudo apt-get install -y redis-server" in done.stdout
    assert not any(call.startswith("apt-get") for call in machine.calls())


def test_installs_nothing_where_the_server_is_there(machine: Machine) -> None:
    machine.fake("id", "echo 1000\n")
    machine.fake("sudo", "exit 1\n")
    machine.fake("apt-get")
    machine.fake("redis-server")
    done = machine.setup()
    assert done.returncode == 0, done.stdout
    assert machine.calls() == []


def test_needs_valgrind_for_the_slow_tier_alone(machine: Machine) -> None:
    machine.fake("id", "echo 0\n")
    machine.fake("apt-get")
    machine.fake("redis-server")
    done = machine.setup("--slow")
    assert done.returncode == 0, done.stdout
    assert "apt-get install -y valgrind" in machine.calls()
