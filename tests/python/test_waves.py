"""Waves of requests to the example server: of a hundred at once, exactly one acquires the lock."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.servers import Server

FOLDER = Path(__file__).parents[2] / "examples" / "server" / "fastapi"
WAVES = 5
REQUESTS = 100
PATHS = ("/job", "/report")


@contextmanager
def listening(redis_url: str) -> Iterator[int]:
    """Runs the example under uvicorn in a separate process, and ends it as an operator would."""
    command = [sys.executable, "-m", "uvicorn", "server:app", "--port", "0", "--no-access-log"]
    process = subprocess.Popen(
        command,
        cwd=FOLDER,
        env={**os.environ, "REDIS_URL": redis_url, "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = ""
    try:
        for line in process.stderr:
            said += line
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                yield int(found[1])
                break
        process.terminate()
        said += process.communicate(timeout=20)[1]
    finally:
        process.kill()
        process.communicate()
    assert "Application shutdown complete" in said, said
    assert "ERROR" not in said, said


async def post(port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close"
    writer.write(f"{head}\r\n\r\n".encode())
    status = await reader.readline()
    await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(status.split()[1])


async def waves(ports: list[int], path: str) -> list[tuple[Counter[int], float]]:
    """Sends each wave a second after the one before. Returns the counts of the responses."""
    answers = []
    for _ in range(WAVES):
        began = time.monotonic()
        sent = (post(ports[number % len(ports)], path) for number in range(REQUESTS))
        codes = Counter(await asyncio.gather(*sent))
        took = time.monotonic() - began
        answers.append((codes, took))
        await asyncio.sleep(max(0.0, 1 - took))
    return answers


@pytest.mark.slow("five waves, a second each")
def test_one_of_a_hundred_gets_the_lock_in_each_wave(redis_server: Server) -> None:
    """On two servers at once, in an async handler and in a handler that runs in a thread."""

    async def main(ports: list[int]) -> list[list[tuple[Counter[int], float]]]:
        return await asyncio.gather(*(waves(ports, path) for path in PATHS))

    with ExitStack() as stack:
        ports = [stack.enter_context(listening(redis_server.url)) for _ in range(2)]
        for answers in asyncio.run(main(ports)):
            assert len(answers) == WAVES
            for codes, took in answers:
                assert codes == {200: 1, 409: REQUESTS - 1}, answers
                assert took >= 0.85, f"the winner held it for its whole work: {answers}"
