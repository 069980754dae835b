"""The same work as tasks of a Celery prefork pool. Run as a program, it sends the tasks."""

import os
import random
import sys
import time

import redlock
from celery import Celery
from hold_periods import hold_period, lock

app = Celery("tasks", broker=os.environ["REDIS_URL"])
app.conf.task_ignore_result = True
#: Maximum number of queued tasks, to avoid a growing backlog.
BACKLOG = 20


@app.task(name="work", throws=(redlock.LockError,))
def work(name: str) -> None:
    with lock(name) as lease:
        for pause in hold_period(name, lease):
            time.sleep(pause)


if __name__ == "__main__":
    import redis

    queue = redis.Redis.from_url(os.environ["REDIS_URL"])
    while True:
        if queue.llen("celery") < BACKLOG:
            work.delay(random.choice(sys.argv[1:]))
        time.sleep(0.02)
