"""The guarded resource: rows in SQLite behind HTTP. The store refuses every write with a stale fencing token.

PUT /ROW with the token in the header Fencing-Token: 204, or 412 if the row has seen a larger one.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

TABLE = "CREATE TABLE guarded (row TEXT PRIMARY KEY, value TEXT, token INTEGER NOT NULL)"
# One statement checks and writes, because another holder could write between a SELECT and an UPDATE. Not `>`, because a
# holder writes many times with the one token of its lease.
WRITE = """
INSERT INTO guarded VALUES (?, ?, ?)
ON CONFLICT (row) DO UPDATE SET value = excluded.value, token = excluded.token
WHERE excluded.token >= guarded.token
"""
UNGUARDED = WRITE.replace("WHERE excluded.token >= guarded.token", "")


class Store:
    def __init__(self, *, guarded: bool) -> None:
        self.rows = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.rows.execute(TABLE)
        self.statement = WRITE if guarded else UNGUARDED

    def write(self, row: str, value: str, token: int) -> bool:
        """Writes a row. Returns false if the row has seen a larger token."""
        return self.rows.execute(self.statement, (row, value, token)).rowcount == 1

    def read(self, row: str) -> str:
        return self.rows.execute("SELECT value FROM guarded WHERE row = ?", (row,)).fetchone()[0]


@contextlib.contextmanager
def serving(store: Store) -> Iterator[str]:
    """Serves the store, one request after the other. Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            value = self.rfile.read(int(self.headers["Content-Length"])).decode()
            written = store.write(self.path[1:], value, int(self.headers["Fencing-Token"]))
            self.send_response(204 if written else 412)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server, contextlib.closing(store.rows):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
