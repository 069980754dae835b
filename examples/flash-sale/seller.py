"""Sells tickets until none is left or LIMIT is reached: reads the stock, checks it, writes it.

seller.py URL GUARDED(1|0) LIMIT TTL PAUSE    (seconds)
"""

import contextlib
import json
import os
import random
import sys
import time

import redis
import redlock

url, guarded, limit = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
ttl, pause = float(sys.argv[4]), float(sys.argv[5])
shop = redis.Redis.from_url(url, decode_responses=True)
lock = redlock.Redlock([url]).lock("flash-sale", ttl=ttl)


def sell() -> bool:
    """Sells one ticket. A real shop needs the pause to charge a card."""
    begin = time.monotonic_ns()
    stock = int(shop.get("stock"))
    if stock == 0:
        return False
    print("selling", flush=True)
    time.sleep(pause)
    shop.set("stock", stock - 1)
    entry = {"seller": f"python {os.getpid()}", "from": begin, "to": time.monotonic_ns()}
    shop.rpush("ledger", json.dumps(entry))
    return True


print("ready", flush=True)
sys.stdin.readline()
for _ in range(limit):
    with lock if guarded else contextlib.nullcontext():
        if not sell():
            break
    time.sleep(random.uniform(0, 0.02))  # the next buyer
