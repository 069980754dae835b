"""Logs a client's events as JSON lines, as a service with structured logs does: `logger.py URL`.

Holds a lock, and acquires another for each line of input.
"""

import contextlib
import json
import logging
import sys

import redlock

STANDARD = vars(logging.makeLogRecord({}))


class Lines(logging.Handler):
    """Prints each record with its fields."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: value for name, value in vars(record).items() if name not in STANDARD}
        line = {"level": record.levelname.lower(), "logger": record.name, "fields": fields}
        print(json.dumps(line | {"message": record.getMessage()}), flush=True)


logging.getLogger("redlock").addHandler(Lines())
logging.getLogger("redlock").setLevel(logging.INFO)
client = redlock.Redlock(sys.argv[1])
lease = client.lock("job", ttl=2).acquire()
print(json.dumps({"message": "ready"}), flush=True)
for _ in sys.stdin:
    with contextlib.suppress(redlock.LockError):
        client.lock("other").acquire().release()
client.close()
