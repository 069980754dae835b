"""The pytest plugin of redlock: an isolated client for each test that asks for one.

Beside the package, not in it: pytest loads it in every run, and a run whose tests do not lock must not import redlock.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from redlock.testing import TestRedlock

__all__ = ["redlock_client", "redlock_default"]


def pytest_configure(config: pytest.Config) -> None:
    """The marker by which a test chooses the client's options."""
    config.addinivalue_line(
        "markers",
        "redlock(**options): options of this test's redlock_client, as of redlock.Redlock",
    )


@pytest.fixture
def redlock_client(request: pytest.FixtureRequest) -> "Iterator[TestRedlock]":
    """A client over a node that only this test has, in which locks can be held by others, lost, and unavailable."""
    from redlock.testing import TestRedlock

    client = TestRedlock(**_options(request))
    yield client
    client.close()


@pytest.fixture
def redlock_default(
    request: pytest.FixtureRequest, redlock_client: "TestRedlock"
) -> "Iterator[TestRedlock]":
    """`redlock_client`, whose node is also that of the default client: of `redlock.lock` and its decorators.

    The default client is what it was before when the test is over.
    """
    import redlock
    from redlock._native import _swap_default

    before = _swap_default(None)
    client = redlock.configure(redlock_client.nodes, **_options(request))
    yield redlock_client
    _swap_default(before)
    client.close()


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for mark in request.node.iter_markers("redlock"):
        # The nearest one comes first, and wins.
        options = {**mark.kwargs, **options}
    return options
