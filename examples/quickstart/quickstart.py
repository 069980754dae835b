import redlock

# A lock in this process, for first steps. A real one: redis://127.0.0.1:6379
client = redlock.Redlock(["memory://"])

# Describes the lock; nothing is sent yet.
lock = client.lock("orders:42", ttl=10, wait=5)

# Holds it for the block: renewed in the background, released at the end.
with lock.acquire() as lease:
    print("holding", lease.key)

    # Raises LockLost when the lease has ended: ask before you write.
    lease.ensure_held()

print("released")
