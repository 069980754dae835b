"""Every public item has a docstring with an example, and each example prints what it claims."""

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import redlock

CLASSES = [
    redlock.Redlock,
    redlock.Lock,
    redlock.Lease,
    redlock.AsyncRedlock,
    redlock.AsyncLock,
    redlock.AsyncLease,
]
#: The examples of these use a lease that they do not create themselves.
NEED_A_LEASE = {
    f"{prefix}Redlock.{verb}"
    for prefix in ("", "Async")
    for verb in ("attach", "force_release", "leases", "release_all", "shutdown")
} | {"AsyncLock.attach", "AsyncLease.as_sync"}


def public() -> Iterator[tuple[str, Any]]:
    for name in redlock.__all__:
        yield name, getattr(redlock, name)
    for owner in CLASSES:
        for name, member in vars(owner).items():
            if not name.startswith("_"):
                yield f"{owner.__name__}.{name}", member


ITEMS = dict(sorted(public(), key=lambda item: item[0]))


def play(text: str, globs: dict[str, Any], runner: asyncio.Runner) -> None:
    """Runs the examples of a docstring like `python -m asyncio`."""

    async def awaited(code: Any) -> Any:
        coroutine = eval(code, globs)
        return await coroutine if inspect.iscoroutine(coroutine) else coroutine

    checker = doctest.OutputChecker()
    for example in doctest.DocTestParser().get_examples(text):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(example.source, "<example>", "single", flags)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                if code.co_flags & inspect.CO_COROUTINE:
                    runner.run(awaited(code))
                else:
                    exec(code, globs)
            except Exception as error:
                if example.exc_msg is None:
                    raise
                (last,) = traceback.format_exception_only(error)
                ok = checker.check_output(example.exc_msg, last, doctest.ELLIPSIS)
                assert ok, f"{example.source}: {last}"
                continue
        got = said.getvalue()
        assert example.exc_msg is None, f"{example.source}: nothing was raised"
        assert checker.check_output(example.want, got, doctest.ELLIPSIS), f"{example.source}: {got}"


@pytest.mark.parametrize("name", ITEMS)
def test_docstring_example_prints_what_it_shows(name: str) -> None:
    text = inspect.getdoc(ITEMS[name]) or ""
    assert ">>>" in text, "no example"
    client = redlock.Redlock("memory://")
    modules = {"redlock": redlock, "asyncio": asyncio, "threading": threading, "time": time}
    globs = {**modules, "client": client, "lock": client.lock("job")}
    if name in NEED_A_LEASE or name.startswith("Lease."):
        globs["lease"] = client.lock("job").acquire()
    with asyncio.Runner() as runner:
        play(text, globs, runner)
    # An example may have lost a lease on purpose.
    with contextlib.suppress(redlock.LockLost):
        client.shutdown(0)


@pytest.mark.parametrize("name", ITEMS)
def test_docstring_starts_with_a_sentence(name: str) -> None:
    """A docstring starts with one or more sentences."""
    text = inspect.getdoc(ITEMS[name]) or ""
    assert text.partition("\n\n")[0].endswith((".", ":")), text
