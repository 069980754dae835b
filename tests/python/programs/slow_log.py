"""More losses than the log queue can hold, with a slow handler: COUNT."""

import logging
import sys
import threading
import time

import redlock

COUNT = int(sys.argv[1])
go_on = threading.Event()
records: list[str] = []
notified: list[int] = []


class Slow(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        go_on.wait()
        records.append(record.getMessage())


logger = logging.getLogger("redlock")
logger.addHandler(Slow())
logger.propagate = False
client = redlock.Redlock("memory://")


def lose(number: int) -> None:
    lease = client.lock("job").acquire()
    lease.on_lost(lambda _: notified.append(number))
    client.force_release("job")
    while lease.held:
        time.sleep(0)  # other threads need the GIL


for number in range(COUNT):
    lose(number)
go_on.set()
while len(notified) < COUNT or not any("dropped" in text for text in records):
    time.sleep(0.001)
# Ordered after all of them.
lose(COUNT)
while len(notified) <= COUNT:
    time.sleep(0.001)
gaps = [int(text.split()[0]) for text in records if "log records were dropped" in text]
losses = sum("lost" in text for text in records)
print(notified == list(range(COUNT + 1)), len(gaps), losses + sum(gaps) >= COUNT, losses < COUNT)
