"""A service under Sentinel with only its URL. The client finds it and follows it to its next primary."""

import asyncio
from collections.abc import Iterator

import pytest
import redlock
from cross.sentinel import Service


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


def test_client_follows_a_failover(service: Service, name: str) -> None:
    with redlock.Redlock(service.url()) as client:
        lock = client.lock(name, ttl=30, wait=20)
        with lock as lease:
            assert service.primary.get(lease.key) == lease.token
            service.replicated(lease.key)
            service.fail_over()
            service.switched()
            lease.extend(ttl=40)
            assert service.promoted().get(lease.key) == lease.token
        assert service.promoted().get(lock.key) is None

        async def one() -> None:
            async with lock as lease:
                assert service.promoted().get(lease.key) == lease.token

        asyncio.run(one())


def test_unknown_service_is_an_error(service: Service, name: str) -> None:
    with (
        redlock.Redlock(service.url() + "-2") as client,
        pytest.raises(redlock.InvalidOption, match="do not know the service service-2"),
    ):
        client.lock(name).acquire()
