"""A new user's program, which acquires a lock in every way with only the package installed."""

import asyncio
import importlib.metadata
import importlib.util
import sys

import redlock

nodes = sys.argv[1]

assert importlib.util.find_spec("redis") is None, "this must work without another Redis client"
assert redlock.__file__.startswith(sys.prefix), redlock.__file__
assert redlock.Redlock.__doc__

with redlock.Redlock(nodes) as client:
    with client.lock("job", ttl=5) as lease:
        assert lease.held
        assert client.lock("job").try_acquire() is None

    async def in_a_loop() -> None:
        async with client.lock("job", ttl=5) as lease:
            lease.ensure_held()
        async with redlock.AsyncRedlock(nodes) as awaited:
            await (await awaited.lock("job", ttl=5).acquire()).release()

    asyncio.run(in_a_loop())
    try:
        client.lock("job", ttl=0.001)
    except redlock.InvalidOption:
        pass
    else:
        raise AssertionError("a ttl of a millisecond was taken")

print(importlib.metadata.version("redlock-native"), client.lock("job").key)
