"""The pytest plugin of redlock: an isolated client for each test that requests one.

Load it with `pytest_plugins = ["redlock.pytest_plugin"]` in the `conftest.py` at the root of your tests, or with
`pytest -p redlock.pytest_plugin`. Installing redlock does not load it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import redlock
from redlock._native import _swap_default
from redlock.testing import AsyncTestRedlock, TestRedlock

__all__ = ["async_redlock_client", "redlock_client", "redlock_default"]


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker that sets the options of the client."""
    config.addinivalue_line(
        "markers",
        "redlock(**options): options of this test's redlock_client, as of redlock.Redlock",
    )


@pytest.fixture
def redlock_client(request: pytest.FixtureRequest) -> Iterator[TestRedlock]:
    """A client with a private in-process node and methods that simulate failures."""
    client = TestRedlock(**_options(request))
    yield client
    client.close()


@pytest.fixture
def async_redlock_client(redlock_client: TestRedlock) -> AsyncTestRedlock:
    """`redlock_client` with methods that are awaited. Both share the node and the leases."""
    return redlock_client.as_async()


@pytest.fixture
def redlock_default(
    request: pytest.FixtureRequest, redlock_client: TestRedlock
) -> Iterator[TestRedlock]:
    """`redlock_client`, whose node is also that of the default client, for `redlock.lock` and decorators.

    The previous default client is restored after the test.
    """
    before = _swap_default(None)
    client = redlock.configure(redlock_client.nodes, **_options(request))
    yield redlock_client
    _swap_default(before)
    client.close()


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for mark in request.node.iter_markers("redlock"):
        # The nearest one comes first and takes precedence.
        options = {**mark.kwargs, **options}
    return options
