"""Cancels a trio run in an exit handler while it holds a lock, and waits for its end: URL NAME."""

import atexit
import sys
import threading

import redlock
import trio

client = redlock.Redlock(sys.argv[1])
entered = threading.Event()
run: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []


async def main() -> None:
    with trio.CancelScope() as scope:
        run.append((trio.lowlevel.current_trio_token(), scope))
        async with client.lock(sys.argv[2], ttl=300) as lease:
            entered.set()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await lease.extend()


def end() -> None:
    token, scope = run[0]
    token.run_sync_soon(scope.cancel)
    thread.join()
    print("ended", flush=True)


# Registered before the first use of trio, so it runs after the handlers of the package.
atexit.register(end)
thread = threading.Thread(target=lambda: trio.run(main), daemon=True)
thread.start()
entered.wait()
