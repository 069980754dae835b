"""The first use if no file can be opened, or no thread started: URL files|threads."""

import asyncio
import logging
import os
import resource
import sys
import warnings
from collections.abc import Callable

import redlock

url, what = sys.argv[1:]
warnings.simplefilter("ignore")
logging.disable()


def refused(first: Callable[[], object]) -> None:
    said = "nothing"
    try:
        first()
    except redlock.QuorumUnavailable as error:
        said = str(error)
    assert "os error" in said, said


def all_files() -> list[int]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    files = []
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return files


def close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def locks() -> None:
    redlock.Redlock(url).lock("job", wait=0).acquire().release()


async def locks_in_a_loop() -> None:
    await (await redlock.AsyncRedlock(url).lock("job", wait=0).acquire()).release()


async def no_files_in_a_loop() -> None:
    files = all_files()
    said = "nothing"
    try:
        await redlock.AsyncRedlock(url).lock("job", wait=0).acquire()
    except redlock.QuorumUnavailable as error:
        said = str(error)
    close(files)
    assert "os error" in said, said
    await locks_in_a_loop()


if what == "files":
    held = all_files()
    refused(locks)
    refused(
        lambda: redlock.Redlock(url).release_all() or redlock.Redlock(url).lock("job").inspect()
    )
    close(held)
    locks()
    asyncio.run(no_files_in_a_loop())
else:
    refused(locks)
    refused(lambda: asyncio.run(locks_in_a_loop()))
    refused(lambda: redlock.configure(url))
print("as it should be")
