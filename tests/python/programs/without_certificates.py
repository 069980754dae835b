"""Makes clients for TLS on a system without certificates. Prints their errors."""

import redlock

for make in (redlock.Redlock, redlock.AsyncRedlock):
    try:
        make("rediss://127.0.0.1:1")
    except redlock.InvalidOption as error:
        print(error)
redlock.Redlock("redis://127.0.0.1:1")
redlock.Redlock("rediss://127.0.0.1:1", tls_verify=False)
