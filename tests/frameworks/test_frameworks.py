"""The recipes of docs/how-to, unchanged, under the usual servers and worker pools."""

import os
import re
import signal
import socket
import subprocess
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
import redlock

from tests.ports import free_port
from tests.servers import Server

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BIN = HERE / ".venv" / "bin"
#: The blocks with a file name, by that name. In a tab, blocks are indented.
RECIPES: dict[str, str] = {
    name: textwrap.dedent(code)
    for page in sorted((ROOT / "docs/how-to").glob("*.md"))
    for _, name, code in re.findall(
        r"^( *)```python (\S+)\n(.*?)^\1```$", page.read_text(), re.M | re.S
    )
}
#: Time limit for a start or an end.
LIMIT = 30.0


class Workspace:
    """A folder with the recipes, a server, and the programs that run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server()
        self.client = redis.Redis(port=self.server.port, decode_responses=True)
        self.url = self.server.url
        self.running: list[subprocess.Popen[str]] = []
        for name, text in {**RECIPES, "probe.py": (HERE / "probe.py").read_text()}.items():
            (folder / name).write_text(text)

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            cwd=self.folder,
            env={
                **os.environ,
                "REDIS_URL": self.url,
                "PYTHONPATH": str(self.folder),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.running.append(process)
        return process

    def ran(self, *words: str, **environment: str) -> str:
        process = self.start(*words, **environment)
        out, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, out
        return out

    def most(self) -> int:
        """Returns the largest number of jobs that ran at once."""
        return max(int(str(each)) for each in self.client.lrange("seen", 0, -1))  # type: ignore[union-attr]

    def seen(self) -> int:
        return int(self.client.llen("seen"))  # type: ignore[arg-type]

    def close(self) -> None:
        for process in self.running:
            with process:
                process.kill()
        self.client.close()
        self.server.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    yield workspace
    workspace.close()


def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def post(url: str) -> int:
    request = urllib.request.Request(url, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def answers(port: int) -> bool:
    try:
        return bool(post(f"http://127.0.0.1:{port}/nowhere"))
    except OSError:
        return False


def serves_one_at_a_time(workspace: Workspace, port: int, paths: list[str]) -> None:
    until(lambda: answers(port), "the server does not start")
    urls = [f"http://127.0.0.1:{port}/{path}" for path in paths]
    with ThreadPoolExecutor(len(urls)) as pool:
        assert [*pool.map(post, urls)] == [200] * len(urls)
    assert (workspace.most(), workspace.seen()) == (1, len(urls))
    with redlock.Redlock(workspace.url) as client, client.lock("order:1"):
        assert post(urls[0]) == 409


def ends(process: "subprocess.Popen[str]", code: int = 0) -> None:
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == code, out


def test_fastapi_with_both_kinds_of_endpoints(workspace: Workspace) -> None:
    (workspace.folder / "probed.py").write_text("""
import asyncio, fastapi_app, probe
app = fastapi_app.app
async def charge(number, lease):
    probe.begin()
    await asyncio.sleep(0.05)
    probe.end()
    return {"held": lease.held}
fastapi_app.charge = charge
""")
    port = free_port()
    process = workspace.start("python", "-m", "uvicorn", "probed:app", "--port", str(port))
    serves_one_at_a_time(workspace, port, ["orders/1"] * 8)
    urls = [f"http://127.0.0.1:{port}/sync/2"] * 8
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(post, urls)] == [200] * 8
    # After an orderly shutdown, uvicorn ends with the signal itself.
    ends(process, -signal.SIGTERM)
    assert not workspace.client.keys("lock:*")


def test_fastapi_frees_the_lock_of_a_client_that_went_away(workspace: Workspace) -> None:
    (workspace.folder / "endless.py").write_text("""
import asyncio, fastapi_app
app = fastapi_app.app
async def charge(number, lease):
    await asyncio.Event().wait()
fastapi_app.charge = charge
""")
    port = free_port()
    process = workspace.start("python", "-m", "uvicorn", "endless:app", "--port", str(port))
    until(lambda: answers(port), "the server does not start")
    with socket.create_connection(("127.0.0.1", port)) as gone:
        gone.sendall(b"POST /orders/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        until(lambda: workspace.client.exists("lock:order:1"), "the lock is not acquired")
    until(lambda: not workspace.client.exists("lock:order:1"), "the lock is not released")
    ends(process, -signal.SIGTERM)


def test_fastapi_starts_twice_in_a_process(workspace: Workspace) -> None:
    """As test suites do, which start the application for each test."""
    program = """
import asyncio, fastapi_app

async def main():

    for _ in range(2):

        async with fastapi_app.lifespan(fastapi_app.app):
            print((await fastapi_app.locked(1))["held"])
asyncio.run(main())
"""
    assert workspace.ran("python", "-c", program) == "True\nTrue\n"


def test_fastapi_responds_with_503_without_redis_and_after_a_loss(workspace: Workspace) -> None:
    (workspace.folder / "losing.py").write_text("""
import asyncio, fastapi_app
app = fastapi_app.app
async def charge(number, lease):
    await fastapi_app.client.as_async().force_release(f"order:{number}")
    await asyncio.Event().wait()
fastapi_app.charge = charge
""")
    for url, paths in (
        (workspace.url, ["orders/1"]),
        ("redis://127.0.0.1:1", ["orders/1", "sync/1"]),
    ):
        port = free_port()
        words = ("python", "-m", "uvicorn", "losing:app", "--port", str(port))
        process = workspace.start(*words, REDIS_URL=url)
        until(lambda port=port: answers(port), "the server does not start")
        assert [post(f"http://127.0.0.1:{port}/{path}") for path in paths] == [503] * len(paths)
        ends(process, -signal.SIGTERM)


def test_flask_responds_with_503_without_redis_and_after_a_loss(workspace: Workspace) -> None:
    program = """
import flask_app, redlock
def charge(number, lease):
    flask_app.client.force_release(f"order:{number}")
    return {}
flask_app.charge = charge
print(flask_app.app.test_client().post("/orders/1").status_code)
flask_app.client = redlock.Redlock("redis://127.0.0.1:1")
print(flask_app.app.test_client().post("/orders/1").status_code)
"""
    assert workspace.ran("python", "-c", program).splitlines().count("503") == 2


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "sync"),
        ("-k", "sync", "--preload"),
        ("-k", "gthread", "--threads", "4"),
        ("-k", "gevent"),
    ],
    ids=" ".join,
)
def test_flask_under_gunicorn(workspace: Workspace, words: tuple[str, ...]) -> None:
    (workspace.folder / "probed.py").write_text("""
import flask_app, probe
app = flask_app.app
def charge(number, lease):
    probe.work()
    return {"held": lease.held}
flask_app.charge = charge
""")
    port = free_port()
    bound = ("-b", f"127.0.0.1:{port}", "-w", "2", *words, "probed:app")
    process = workspace.start("python", "-m", "gunicorn", *bound)
    serves_one_at_a_time(workspace, port, ["orders/1"] * 8)
    ends(process)
    assert not workspace.client.keys("lock:*")


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_celery_runs_one_of_a_kind(workspace: Workspace, pool: str) -> None:
    (workspace.folder / "probed.py").write_text("""
import celery_app, probe
app = celery_app.app
celery_app.work = probe.work
""")
    words = ("-A", "probed", "worker", "-P", pool, "-c", "4", "-l", "WARNING")
    process = workspace.start("celery", *words, WORK="1.0")
    sender = """
from probed import app, celery_app
same = [celery_app.rebuild.delay("users") for _ in range(6)]
other = celery_app.rebuild.delay("orders")
print(sorted(each.get(timeout=25) for each in same), other.get(timeout=25))
again = celery_app.rebuild.delay("users")
print(again.get(timeout=25))
"""
    said = workspace.ran("python", "-c", sender)
    first, last = said.splitlines()[-2:]
    # Both kinds run at the same time, and each of them once. A caller that is too late for the first run may get the
    # second.
    assert first.endswith("worked")
    assert first.count("skipped") >= 3
    assert last == "worked"
    assert workspace.most() <= 2
    ends(process)
    assert not workspace.client.keys("once:*")


def test_dramatiq_runs_the_jobs_of_an_account_one_at_a_time(workspace: Workspace) -> None:
    (workspace.folder / "probed.py").write_text("""
import dramatiq_app, probe
dramatiq_app.work = probe.work
""")
    words = ("probed", "-p", "2", "-t", "4", "--path", str(workspace.folder))
    workers = workspace.start("dramatiq", *words)
    sender = "from probed import dramatiq_app\nfor _ in range(6): dramatiq_app.invoice.send('a')"
    workspace.ran("python", "-c", sender)
    until(lambda: workspace.seen() == 6, "the jobs do not run")
    assert workspace.most() == 1
    ends(workers)
    assert not workspace.client.keys("lock:*")


def test_rq_runs_one_of_a_kind(workspace: Workspace) -> None:
    (workspace.folder / "probed.py").write_text("""
import probe, rq_jobs
rq_jobs.work = probe.work
rebuild = rq_jobs.rebuild
""")
    words = ("worker", "--url", workspace.url, "--path", str(workspace.folder), "-q")
    workers = [workspace.start("rq", *words, WORK="2.0") for _ in range(2)]
    sender = """
import os, time, redis, rq, rq_jobs
queue = rq.Queue(connection=redis.Redis.from_url(os.environ["REDIS_URL"]))
jobs = [queue.enqueue("probed.rebuild", "users") for _ in range(2)]

while not all(job.is_finished for job in jobs):
    assert not any(job.is_failed for job in jobs)
    time.sleep(0.05)
print(sorted(job.return_value() for job in jobs))
"""
    assert workspace.ran("python", "-c", sender).endswith("['skipped', 'worked']\n")
    assert workspace.most() == 1
    for worker in workers:
        ends(worker)
    assert not workspace.client.keys("lock:rebuild:*")


def test_apscheduler_on_two_hosts(workspace: Workspace) -> None:
    (workspace.folder / "host.py").write_text("""
import time
import apscheduler_jobs, probe
apscheduler_jobs.work = probe.work
# Two hosts whose ticks are the same.
now = time.time()
apscheduler_jobs.scheduler.start()
time.sleep(5)
apscheduler_jobs.scheduler.shutdown()
print("ended")
""")
    hosts = [workspace.start("python", "host.py") for _ in range(2)]
    for host in hosts:
        out, _ = host.communicate(timeout=LIMIT)
        assert out.endswith("ended\n"), out
    assert workspace.most() == 1
    assert workspace.seen() >= 3


def test_a_cron_script_on_three_hosts(workspace: Workspace) -> None:
    hosts = [workspace.start("python", "cron_job.py") for _ in range(3)]
    said = [host.communicate(timeout=LIMIT)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0, 0]
    assert sorted(said) == ["", "", "backup\n"]
    # The key stays for hosts with late clocks.
    assert 0 < workspace.client.pttl("lock:cron:backup") <= 31_000  # type: ignore[operator]


def test_django_s_cache_has_our_locks(workspace: Workspace) -> None:
    (workspace.folder / "nightly").mkdir()
    program = """
import logging, redlock
logging.getLogger("redlock").warning("before")
client = redlock.Redlock("memory://")
import django
django.setup()
from django.core.cache import cache
with cache.lock("job", ttl=5, wait=1) as lease:
    print(lease.key, cache.lock("job").try_acquire())
kept = client.lock("job").acquire()
client.force_release("job")
while kept.held: pass
"""
    (workspace.folder / "nightly" / "__init__.py").touch()
    out = workspace.ran("python", "-c", program, DJANGO_SETTINGS_MODULE="django_settings")
    assert "lock::1:job None\n" in out
    # Logging after django.setup() is not silenced by `disable_existing_loggers`.
    assert "lease lost" in out


def test_a_django_command_that_one_host_runs(workspace: Workspace) -> None:
    commands = workspace.folder / "nightly" / "management" / "commands"
    commands.mkdir(parents=True)
    for folder in (commands, commands.parent, commands.parent.parent):
        (folder / "__init__.py").touch()
    (commands / "nightly.py").write_text(RECIPES["django_command.py"])

    def run() -> str:
        words = ("-m", "django", "nightly")
        return workspace.ran("python", *words, DJANGO_SETTINGS_MODULE="django_settings")

    # A line of the log can be the last one.
    assert "done" in run().splitlines()
    with redlock.Redlock(workspace.url) as client, client.lock("command:nightly"):
        assert "skipped: another host runs it" in run().splitlines()


def test_every_recipe_is_run() -> None:
    """Every recipe is run by the tests above, or by a program that they run."""
    used = {"fastapi_app", "flask_app", "celery_app", "apscheduler_jobs", "cron_job"}
    used |= {"django_cache", "django_command", "django_settings", "dramatiq_app", "rq_jobs"}
    assert {name.removesuffix(".py") for name in RECIPES} == used
