"""Forks in a signal handler while a call waits for its reply. The child continues the call: URL PORT NAME VERB."""

import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable

import redlock

warnings.simplefilter("ignore")
url, port, name, verb = sys.argv[1:]
armed, passes, parent = threading.Event(), threading.Event(), os.getpid()
command = b"PING" if verb == "shutdown" else name.encode()  # other threads send others
passes.set()


def copy(source: socket.socket, target: socket.socket, to_server: bool) -> None:
    while data := source.recv(65536):
        if to_server and armed.is_set() and command in data:
            armed.clear()
            passes.clear()
            os.kill(parent, signal.SIGUSR1)  # the call waits for the reply
            passes.wait()
        target.sendall(data)


def proxy(listener: socket.socket) -> None:
    while True:
        client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", int(port)))
        threading.Thread(target=copy, args=(client, server, True), daemon=True).start()
        threading.Thread(target=copy, args=(server, client, False), daemon=True).start()


def fork(*_: object) -> None:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        return
    print("child", os.waitpid(pid, 0)[1], flush=True)
    passes.set()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=proxy, args=(listener,), daemon=True).start()
client = redlock.Redlock(url.replace(port, str(listener.getsockname()[1])), node_timeout=50)
lock = client.lock(name, ttl=600)
lease = lock.acquire()
calls: dict[str, Callable[[], object]] = {
    "acquire": lambda: client.lock(name + "-other", ttl=600).acquire(wait=0).release(),
    "try_acquire": lambda: client.lock(name + "-other", ttl=600).try_acquire().release(),
    "attach": lambda: lock.attach(lease.token).detach(),
    "inspect": lock.inspect,
    "force_release": lambda: client.force_release(name + "-other"),
    "extend": lease.extend,
    "release": lease.release,
    "release_all": client.release_all,
    "shutdown": client.shutdown,
}
if verb == "shutdown":
    lease.release()
signal.signal(signal.SIGUSR1, fork)
armed.set()
try:
    result = repr(calls[verb]())
except redlock.LockLost as error:
    result = error.reason
if os.getpid() != parent:
    expected = "0" if verb in ("release_all", "shutdown") else "forked"
    os._exit(0 if result == expected else 1)
print(result, lease.held)
os._exit(0)
