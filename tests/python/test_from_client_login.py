"""The login of `Redlock.from_client`: the same as for redis-py's client, or refused. A password is never shown."""

import asyncio
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
import redlock
from redlock import Redlock

from tests.servers import Server

from .test_from_client import HOST, seen

Call = Callable[..., Any]


def said(error: BaseException) -> str:
    """Returns everything that a log contains of the error, except the program's own lines."""
    return f"{error!r} " + "".join(
        str(each) for each in (error, error.__cause__, error.__context__) if each is not None
    )


class Provider(redis.CredentialProvider):
    def __init__(self, *answer: Any) -> None:
        self.answer: Any = answer

    def get_credentials(self) -> Any:
        return self.answer


class AsyncProvider(redis.CredentialProvider):
    async def get_credentials_async(self) -> Any:
        await asyncio.sleep(0)
        return ("app", "s3c/r:e@t")


def test_credential_provider_is_used(server: Server, library: Any, call: Call) -> None:
    in_bytes = Provider(b"app", b"s3c/r:e@t")
    for provider in (Provider("app", "s3c/r:e@t"), in_bytes, AsyncProvider()):
        theirs = library(host=HOST, port=server.port, client_name="x", credential_provider=provider)
        with Redlock.from_client(theirs) as client:
            assert {one["user"] for one in seen(server, client, call)} == {"app"}


class AsList(Provider):
    def get_credentials(self) -> Any:
        return list(self.answer)


@pytest.fixture(scope="module")
def odd_users() -> Iterator[Server]:
    """Starts a server with users that redis-py accepts: text in another encoding, bytes and numbers."""
    server = Server()
    for user, password in {
        "utf": "p\u00e4".encode(),
        "latin": "p\u00e4".encode("latin-1"),
        "5": b"1.5",
    }.items():
        words = ["on", "~*", "+@all", "&*", b">" + password]
        server.client.execute_command("ACL", "SETUSER", user, *words)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("provider", "encoding", "user"),
    [
        (AsList("utf", "p\u00e4"), "utf-8", "utf"),
        (Provider("utf", "p\u00e4"), "UTF8", "utf"),
        (AsList(b"utf", "p\u00e4".encode()), "latin-1", "utf"),
        (Provider("utf", memoryview("p\u00e4".encode())), "utf-8", "utf"),
        (AsList("5", 1.5), "latin-1", "5"),
        (Provider(5, "1.5"), "ascii", "5"),
    ],
)
def test_result_of_a_provider_is_encoded_as_redis_py_does(
    odd_users: Server, library: Any, call: Call, provider: Provider, encoding: str, user: str
) -> None:
    options = {"encoding": encoding, "client_name": "x", "credential_provider": provider}
    with Redlock.from_client(library(host=HOST, port=odd_users.port, **options)) as client:
        assert {one["user"] for one in seen(odd_users, client, call)} == {user}


@pytest.mark.parametrize(
    ("provider", "encoding", "words"),
    [
        (Provider("latin", "s3cret\u00e4"), "latin-1", "returned a password that is not UTF-8"),
        (Provider("latin", b"s3cret\xe4"), "utf-8", "returned a password that is not UTF-8"),
        (Provider(b"s3cret\xe4", b"s3cret"), "utf-8", "returned a user that is not UTF-8"),
        (Provider("utf", "s3cret\udce4"), "utf-8", "returned a password that is not UTF-8"),
        (Provider("utf", "s3cret\u00e4"), "ascii", "raised UnicodeEncodeError"),
        (Provider("utf", "s3cret", "s3cret", 4), "utf-8", "returned 4 values"),
        (Provider("s3cret", None), "utf-8", "returned a password of type NoneType"),
        (Provider("s3cret", True), "utf-8", "returned a password of type bool"),
        (Provider(), "utf-8", "returned 0 values"),
    ],
)
def test_unusable_result_of_a_provider_is_an_error_that_does_not_show_it(
    odd_users: Server, call: Call, provider: Provider, encoding: str, words: str
) -> None:
    theirs = redis.Redis(
        host=HOST, port=odd_users.port, encoding=encoding, credential_provider=provider
    )
    with Redlock.from_client(theirs) as client, pytest.raises(redlock.QuorumUnavailable) as caught:
        call(client.lock("job", wait=0), "acquire")
    assert words in str(caught.value)
    assert "s3cret" not in f"{said(caught.value)} {caught.value.nodes}"


def test_provider_may_return_only_a_password(call: Call) -> None:
    server = Server()
    server.client.config_set("requirepass", "s3cret")
    theirs = redis.Redis(host=HOST, port=server.port, credential_provider=Provider("s3cret"))
    try:
        with Redlock.from_client(theirs) as client:
            assert call(call(client.lock("job", wait=1), "acquire"), "release") is None
            copy = pickle.loads(pickle.dumps(client))
            assert copy.nodes == client.nodes
    finally:
        server.close()


def test_quorum_must_share_one_provider(server: Server) -> None:
    one, other = Provider("a", "b"), Provider("a", "b")
    clients = [redis.Redis(port=1 + at, credential_provider=one) for at in range(3)]
    assert len(Redlock.from_client(clients).nodes) == 3
    for last in (redis.Redis(port=9, credential_provider=other), redis.Redis(port=9)):
        with pytest.raises(redlock.InvalidOption, match="credential providers"):
            Redlock.from_client([*clients, last])


def test_quorum_with_a_provider_must_share_one_encoding() -> None:
    one = Provider("a", "b")
    for encodings in (("utf-8", "UTF8", "u8"), ("utf-8", "utf-8", "latin-1")):
        clients = [
            redis.Redis(port=1 + at, credential_provider=one, encoding=each)
            for at, each in enumerate(encodings)
        ]
        if "latin-1" not in encodings:
            assert len(Redlock.from_client(clients).nodes) == 3
            continue
        with pytest.raises(redlock.InvalidOption, match=r"encode the result .* differently"):
            Redlock.from_client(clients)


class Streaming(Provider):
    def on_next(self, callback: Any) -> None:
        raise AssertionError("nobody listens")


def test_streaming_provider_warns_that_new_tokens_are_ignored() -> None:
    with pytest.warns(UserWarning, match="new tokens of the credential_provider"):
        Redlock.from_client(redis.Redis(credential_provider=Streaming("a", "b")))
    Redlock.from_client(
        redis.Redis(credential_provider=Streaming("a", "b")), credentials=lambda: "s3cret"
    )


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"host": "evil@other", "password": "s3cret"}, "a client's host"),
        ({"host": "app:s3cret@other"}, "a client's host.*separate settings"),
        ({"host": "redis://:s3cret@other"}, "a client's host"),
        ({"host": b"s3cret"}, "a client's host, a bytes"),
        ({"host": "app:s3cret"}, "IPv6"),
        ({"host": "one/2"}, "a client's host"),
        ({"host": None}, "a client's host"),
        ({"port": "6379:s3cret"}, "a client's port, a str"),
        ({"db": "s3cret"}, "a client's db, a str"),
        ({"client_name": "s3 s3cret"}, "client_name"),
        ({"socket_timeout": "s3cret"}, "socket_timeout"),
        ({"socket_connect_timeout": "s3cret"}, "socket_connect_timeout"),
        ({"ssl": True, "ssl_cert_reqs": "s3cret"}, "ssl_cert_reqs"),
        ({"username": "s3cret"}, "a user without a password"),
        ({"unix_socket_path": 5}, "path, a int, is not a path"),
        ({"ssl": True, "ssl_keyfile": 5}, "ssl_keyfile, a int, is not a path"),
        ({"ssl": True, "ssl_min_version": "s3cret"}, "ssl_min_version"),
        ({"port": float("inf")}, "a client's port, a float"),
        ({"db": 10**5000}, "a client's db, a int"),
        ({"client_name": "s3cret\udcff"}, "client_name has a character"),
        ({"unix_socket_path": "/s3cret\udcff"}, "path has a character"),
        ({"ssl": True, "ssl_keyfile": "s3cret\udcff"}, "ssl_keyfile has a character"),
        ({"password": "s3cret", "encoding": 5}, "password as 5"),
        ({"password": "s3cret", "encoding": "a\0"}, "password as a"),
    ],
)
def test_invalid_settings_are_refused_and_not_shown(
    kwargs: dict[str, Any], words: str, library: Any
) -> None:
    with pytest.raises(redlock.InvalidOption, match=words) as caught:
        redlock.Redlock.from_client(library(**kwargs))
    assert "s3cret" not in said(caught.value)


def test_invalid_addresses_of_sentinels_and_clusters_are_not_shown(library: Any) -> None:
    asynchronous = library is redis.asyncio.Redis
    sentinel = redis.asyncio.sentinel.Sentinel if asynchronous else redis.sentinel.Sentinel
    given: list[tuple[Any, dict[str, Any]]] = [
        (sentinel([("app:s3cret@a", 1)]), {"service": "svc"}),
        (sentinel([("a", "6379:s3cret")]), {"service": "svc"}),
        (sentinel([("a", 1)]), {"service": "s3cret/x"}),
        (sentinel([("a", 1)]), {"service": "s3cret\udcff"}),
    ]
    for own in ({"username": "s3cret\udcff", "password": "x"}, {"password": "s3cret\udcff"}):
        given.append((sentinel([("a", 1)], sentinel_kwargs=own), {"service": "svc"}))
    if asynchronous:  # redis-py's sync client connects when it is created
        given.append((redis.asyncio.RedisCluster(host="app:s3cret@h", port=1), {}))
    for client, options in given:
        with pytest.raises(redlock.InvalidOption) as caught:
            redlock.Redlock.from_client(client, **options)
        assert "s3cret" not in said(caught.value)


@pytest.mark.parametrize("place", [{}, {"unix_socket_path": "/tmp/socket"}], ids=["tcp", "unix"])
def test_password_whose_encoding_is_not_utf8_is_refused(place: dict[str, Any]) -> None:
    for password, encoding in [
        ("caf\u00e9", "latin-1"),
        ("caf\udce9", "utf-8"),
        (b"caf\xe9", "utf-8"),
        ("caf", "no such encoding"),
    ]:
        theirs = redis.Redis(password=password, encoding=encoding, **place)  # type: ignore[arg-type]
        in_bytes = isinstance(password, bytes)
        words = "password is in bytes that are not UTF-8" if in_bytes else f"password as {encoding}"
        with pytest.raises(redlock.InvalidOption, match=words) as caught:
            redlock.Redlock.from_client(theirs)
        assert "caf" not in str(caught.value)
        assert caught.value.__context__ is None
    for good in (bytearray(b"s3cret"), "caf\u00e9"):
        assert Redlock.from_client(redis.Redis(password=good, **place)).nodes  # type: ignore[arg-type]
    assert redlock.Redlock.from_client(redis.Redis(password="s3cret", encoding="latin-1")).nodes
