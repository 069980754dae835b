"""Random URLs and options result in a client or in InvalidOption, never in a panic or a message with a password.

`make fuzz` sets FUZZ_URLS, the number of examples, and tries new ones. A failing example is shrunk and printed.
"""

import math
import os
import re
from typing import Any

import pytest
import redlock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUZZ_RUNS = os.environ.get("FUZZ_URLS")
PIECES = [
    *("redis://", "rediss://", "unix://", "memory://", "redis+cluster://", "http://", "redis:"),
    *("://", "user", ":", "@", "s3cret", "127.0.0.1", "[::1]", ":6379", ":99999", "/", "0", "/3"),
    *("?", "&", "pass=", "password=", "db=", "user=", "#", "%40", "%", ",", " ", "é", "host"),
    *("\n", "\x1b[2J", "\u202e"),
]
STARTS = ["redis://", "redis://user:s3cret@", "redis://:s3cret", ""]
CLIENT = [
    "key_prefix",
    "node_timeout",
    "restart_guard",
    "tls_key",
    "tls_cert",
    "tls_ca",
    "tls_server_name",
]
LOCK = ["ttl", "wait", "renew", "max_hold", "node_timeout", "fencing", "timeout", "s3cret"]

pieces = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6).map("".join)
urls = st.lists(st.builds(str.__add__, st.sampled_from(STARTS), pieces), min_size=1, max_size=3)
values: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([0.05, 1e308, math.nan, math.inf, "s3cret", b"s3cret", [], {}, ""]),
)


def options(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), values, max_size=2)


def check(error: BaseException, arguments: object) -> None:
    assert isinstance(error, redlock.InvalidOption | TypeError), (arguments, error)
    # A message may contain the word as the name of an option, as a value that must be a number, or as a host.
    allowed = (
        r"option 's3cret'|(ttl|wait|renew|max_hold|timeout|restart_guard|fencing) is b?'s3cret'"
        r"|node \w+://[^/@ ]*s3cret[^/@ ]*:\d+(/\d+)? is given twice"
        # The rest of a memory:// URL is the name of a store in this process.
        r"|node memory://[^@ ]*s3cret[^@ ]* is given twice"
    )
    assert "s3cret" not in re.sub(allowed, "", str(error)), (arguments, error)
    assert not any(ord(c) < 32 or c == "\u202e" for c in str(error)), (arguments, error)


@pytest.mark.limit(120 + int(FUZZ_RUNS or 0) / 300)
@settings(
    max_examples=int(FUZZ_RUNS or 300),
    # The test suite always tries the same examples.
    derandomize=FUZZ_RUNS is None,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    nodes=urls,
    client_options=options(CLIENT),
    name=st.sampled_from(["job", "", "a\nb", "x" * 70000]) | st.text(max_size=20),
    lock_options=options(LOCK),
)
def test_random_urls_and_options_raise_only_invalid_option(
    nodes: list[str], client_options: dict[str, Any], name: str, lock_options: dict[str, Any]
) -> None:
    try:
        client = redlock.Redlock(nodes, **client_options)
    except Exception as error:
        check(error, (nodes, client_options))
        return
    # A name or a host may contain any text, but never the text before an @.
    for given_url, shown in zip(nodes, client.nodes, strict=True):
        assert "s3cret" not in shown or "s3cret" in given_url.rpartition("@")[2], (given_url, shown)
    try:
        client.lock(name, **lock_options)
    except Exception as error:
        check(error, lock_options)
