import redlock

client = redlock.Redlock("memory://")  # your server: redis://127.0.0.1:6379

with client.lock("orders:42", ttl=10, wait=5) as lease:
    # Renewed in the background until the block ends.
    print("holding", lease.key)
    lease.ensure_held()  # raises LockLost if the lease has ended

print("released")
