"""URLs and options made of pieces at random: InvalidOption or a client, never a panic, and never the password shown.

`make fuzz` makes FUZZ of them; SEED says which.
"""

import math
import os
import random
import re

import redlock

MOST = int(os.environ.get("FUZZ_URLS", "3000"))
SEED = int(os.environ.get("SEED", "1"))
PIECES = [
    *(
        "redis://",
        "rediss://",
        "unix://",
        "memory://",
        "redis+cluster://",
        "http://",
        "://",
        "redis:",
    ),
    *(
        "user",
        ":",
        "@",
        "s3cret",
        "127.0.0.1",
        "[::1]",
        ":6379",
        ":99999",
        "/",
        "0",
        "/3",
        "?",
        "&",
    ),
    *(
        "pass=",
        "password=",
        "db=",
        "#",
        "%40",
        "%",
        " ",
        ",",
        "\n",
        "\x1b[2J",
        "é",
        "\u202e",
        "host",
    ),
]
VALUES = [
    None,
    -1,
    0,
    0.05,
    1,
    1e9,
    1e308,
    math.nan,
    math.inf,
    "s3cret",
    b"s3cret",
    [],
    {},
    "",
    True,
]
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


def check(error: BaseException, about: object) -> None:
    assert isinstance(error, redlock.InvalidOption | TypeError), (about, error)
    # The name of an option is not a secret, nor is what stands where a number belongs.
    plain = r"option 's3cret'|(ttl|wait|renew|max_hold|timeout|restart_guard|fencing) is b?'s3cret'"
    assert "s3cret" not in re.sub(plain, "", str(error)), (about, error)
    assert not any(ord(c) < 32 or c == "\u202e" for c in str(error)), (about, error)


def url(dice: random.Random) -> str:
    start = dice.choice(["redis://", "redis://user:s3cret@", "redis://:s3cret", ""])
    return start + "".join(dice.choices(PIECES, k=dice.randint(0, 6)))


def test_urls_and_options_of_pieces() -> None:
    dice = random.Random(SEED)
    made = 0
    for _ in range(MOST):
        nodes = [url(dice) for _ in range(dice.choice([1, 1, 3]))]
        names = dice.sample(CLIENT, dice.choice([0, 0, 1, 2]))
        options = {name: dice.choice(VALUES) for name in names}
        try:
            client = redlock.Redlock(nodes, **options)  # type: ignore[arg-type]
        except Exception as error:
            check(error, (nodes, options))
            continue
        made += 1
        # A name or a host may be anything, but what stands before an @ is none of it.
        for given, shown in zip(nodes, client.nodes, strict=True):
            assert "s3cret" not in shown or "s3cret" in given.rpartition("@")[2], (given, shown)
        lock_options = {name: dice.choice(VALUES) for name in dice.sample(LOCK, 2)}
        try:
            client.lock(dice.choice(["job", "", "a\nb", "x" * 70000]), **lock_options)
        except Exception as error:
            check(error, lock_options)
    assert made > MOST / 100
