"""The garbage collector clears what only a lease in a reference cycle owns, while a log record or a loss needs it.

Reading a variable of a cleared context, or calling a cleared function, ends the process.
"""

from .processes import output_of

# A handler that is slow for one record, and a program that releases every lease.
RECORDS = """
import contextvars, gc, logging, threading
import redlock

REQUEST = contextvars.ContextVar("REQUEST", default="none")
REQUEST.set("42")
begun, gate, done, seen = threading.Event(), threading.Event(), threading.Event(), set()

class Handler(logging.Handler):
    def emit(self, record):
        begun.set()
        gate.wait(10)
        key = record.getMessage().rpartition(":")[2].split()[0]
        seen.add((key, REQUEST.get()))
        if key == "last":
            done.set()

class Job:
    def __init__(self, name):
        self.itself = self
        self.lease = client.lock(name).acquire()
        self.lease.release()

logger = logging.getLogger("redlock")
logger.addHandler(Handler())
logger.setLevel(logging.DEBUG)
client = redlock.Redlock("memory://")
first = Job("first")
begun.wait(10)
Job("cycle")
gc.collect()
gate.set()
last = Job("last")
done.wait(10)
print(sorted(seen))
"""

# An object without a dictionary is no concern of the collector. Its end runs while the collector clears the others, of
# which the callback is the oldest.
LOSS = """
import gc, threading
import redlock

client = redlock.Redlock("memory://")
other, told = client.lock("other").acquire(), threading.Event()
other.on_lost(lambda error: told.set())
called = []

class Ends:
    __slots__ = ()

    def __del__(self):
        client.force_release("cycle")
        client.force_release("other")
        print(told.wait(10))

class Job:
    pass

def begin():
    job = Job()
    def callback(error):
        called.append(job)
    lease = client.lock("cycle").acquire()
    lease.on_lost(callback)
    del callback
    job.itself, job.lease, job.ends = job, lease, Ends()

gc.disable()
begin()
gc.collect()
print(len(called))
"""


def test_a_record_outlives_the_context_of_a_lease_in_a_cycle() -> None:
    assert output_of(RECORDS) == "[('cycle', 'none'), ('first', '42'), ('last', '42')]\n"


def test_a_loss_during_the_collection_of_a_lease_is_not_told() -> None:
    assert output_of(LOSS) == "True\n0\n"
