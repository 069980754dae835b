"""Logs a client's events as JSON lines, as a service with structured logs does: `logger.py URL`."""

import json
import logging
import sys
import threading

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
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
client = redlock.Redlock(sys.argv[1])
lease = client.lock("job", ttl=2).acquire()
print(json.dumps({"message": "ready"}), flush=True)
while not ended.is_set():
    try:
        if (other := client.lock("other").try_acquire()) is not None:
            other.release()
    except redlock.LockError:
        pass
    ended.wait(0.05)
client.close()
