"""`rediss://` and `unix://` against real servers: which certificates are trusted, and which are not."""

import asyncio
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.ports import free_port
from tests.servers import Server
from tests.waiting import eventually

from . import certificates

Call = Callable[..., Any]


class Secured(Server):
    """A server with a TLS port beside its plain one."""

    def __init__(self, folder: Path, auth_clients: str, certificate: str = "server.crt") -> None:
        self.tls_port = free_port()
        flags = ["--tls-port", str(self.tls_port), "--tls-auth-clients", auth_clients]
        for flag, name in {"cert": certificate, "key": "server.key", "ca-cert": "ca.crt"}.items():
            flags += [f"--tls-{flag}-file", str(folder / name)]
        super().__init__(*flags)
        self.tls_url = f"rediss://127.0.0.1:{self.tls_port}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certificates")
    certificates.make(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Secured]:
    server = Secured(folder, "no")
    yield server
    server.close()


@pytest.fixture(scope="module")
def strict(folder: Path) -> Iterator[Secured]:
    server = Secured(folder, "yes")
    yield server
    server.close()


def locks(call: Call, url: str, wait: float = 10, **options: Any) -> None:
    """Acquires and releases a lock on the server."""
    with redlock.Redlock(url, **options) as client:
        call(call(client.lock("job", wait=wait), "acquire"), "release")


def refused(call: Call, url: str, **options: Any) -> str:
    with pytest.raises(redlock.QuorumUnavailable) as caught:
        locks(call, url, wait=0.5, **options)
    (node,) = caught.value.nodes
    return str(node.error)


def test_server_certificate_of_the_given_ca_is_trusted(
    folder: Path, server: Secured, call: Call
) -> None:
    locks(call, server.tls_url, tls_ca=folder / "ca.crt")


def test_server_certificate_of_another_ca_is_refused(
    folder: Path, server: Secured, call: Call
) -> None:
    assert "UnknownIssuer" in refused(call, server.tls_url, tls_ca=folder / "other-ca.crt")
    assert "UnknownIssuer" in refused(call, server.tls_url)


def test_server_that_presents_tls_ca_itself_is_trusted(folder: Path, call: Call) -> None:
    own = Secured(folder, "no", "own.crt")
    try:
        locks(call, own.tls_url, tls_ca=folder / "own.crt")
        said = refused(call, own.tls_url, tls_ca=folder / "ca.crt")
        assert said.count("`openssl ") == 2, said
    finally:
        own.close()


def test_acquire_without_a_wait_does_not_wait_for_another_certificate(
    folder: Path, server: Secured, call: Call
) -> None:
    with redlock.Redlock(server.tls_url, tls_ca=folder / "other-ca.crt") as client:
        with pytest.raises(redlock.QuorumUnavailable, match="UnknownIssuer") as caught:
            call(client.lock("job"), "acquire")
        # Otherwise it would end by the option, after 10 s.
        assert "unavailable_after" not in str(caught.value)


def test_server_name_must_match_the_certificate(folder: Path, server: Secured, call: Call) -> None:
    ca = folder / "ca.crt"
    locks(call, server.tls_url, tls_ca=ca, tls_server_name="redis.test")
    said = refused(call, server.tls_url, tls_ca=ca, tls_server_name="other.test")
    assert "other.test" in said


def test_client_certificate_is_sent_on_request(folder: Path, strict: Secured, call: Call) -> None:
    ca, cert, key = folder / "ca.crt", folder / "client.crt", folder / "client.key"
    locks(call, strict.tls_url, tls_ca=ca, tls_cert=cert, tls_key=key)
    assert refused(call, strict.tls_url, tls_ca=ca)


def test_certificates_can_be_passed_as_bytes(
    call: Call, folder: Path, server: Secured, strict: Secured
) -> None:
    def read(name: str) -> bytes:
        return (folder / name).read_bytes()

    ca = read("ca.crt")
    locks(call, server.tls_url, tls_ca=ca)
    assert "UnknownIssuer" in refused(call, server.tls_url, tls_ca=read("other-ca.crt"))
    locks(call, strict.tls_url, tls_ca=ca, tls_cert=read("client.crt"), tls_key=read("client.key"))
    with pytest.raises(
        redlock.InvalidOption, match=r"cannot use the bytes of tls_ca: .*Pass a path as text"
    ):
        redlock.Redlock(server.tls_url, tls_ca=str(folder / "ca.crt").encode())
    with pytest.raises(redlock.InvalidOption, match=r"tls_ca is of type bytearray.*or its bytes"):
        redlock.Redlock(server.tls_url, tls_ca=bytearray(ca))  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(redlock.Redlock(server.tls_url, tls_ca=ca)))
    with again:
        call(call(again.lock("job"), "acquire"), "release")


def test_tls_on_a_plain_port_and_the_reverse_fail_in_time(
    folder: Path, server: Secured, call: Call
) -> None:
    ca = folder / "ca.crt"
    assert refused(call, f"rediss://127.0.0.1:{server.port}", tls_ca=ca)
    assert refused(call, f"redis://127.0.0.1:{server.tls_port}")


def test_configure_accepts_tls_options(folder: Path, server: Secured) -> None:
    redlock.configure(server.tls_url, tls_ca=str(folder / "ca.crt"), replace=True)

    async def main() -> bool:
        async with redlock.lock("configured") as lease:
            return lease.held

    assert asyncio.run(main())
    redlock.configure("memory://", replace=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls_ca": "nowhere.pem"}, "nowhere.pem"),
        ({"tls_ca": "ca.key"}, "no PEM certificate"),
        ({"tls_ca": "ca.crt", "tls_cert": "client.crt"}, "tls_key"),
        ({"tls_ca": "ca.crt", "tls_key": "client.key"}, "tls_cert"),
        ({"tls_ca": "ca.crt", "tls_cert": "client.crt", "tls_key": "none.key"}, "none.key"),
        ({"tls_ca": "ca.crt", "tls_server_name": "no name"}, "not a name"),
        (
            {"tls_ca": "ca.crt", "tls_cert": "client.crt", "tls_key": "ca.key"},
            r"cannot use tls_key \(.*ca\.key\): it is not the key of the first certificate in tls_cert",
        ),
        ({"tls_ca": "ca.crt", "tls_cert": "client.crt", "tls_key": "locked.key"}, "encrypted"),
        ({"tls_ca": "wide.crt"}, "UTF-16"),
    ],
)
def test_unusable_tls_options_are_refused_when_the_client_is_created(
    folder: Path, server: Secured, options: dict[str, str], words: str
) -> None:
    given = {
        name: value if name == "tls_server_name" else str(folder / value)
        for name, value in options.items()
    }
    with pytest.raises(redlock.InvalidOption, match=words):
        redlock.Redlock(server.tls_url, **given)  # type: ignore[arg-type]


def test_byte_order_mark_of_a_certificate_is_ignored(
    folder: Path, server: Secured, call: Call
) -> None:
    marked = (folder / "ca.crt").read_text().encode("utf-8-sig")
    (folder / "marked.crt").write_bytes(marked)
    for ca in (marked, folder / "marked.crt"):
        locks(call, server.tls_url, tls_ca=ca)


def test_system_without_certificates_is_named_with_the_options(tmp_path: Path) -> None:
    """As in a slim container image."""
    program = (Path(__file__).parent / "programs/without_certificates.py").read_text()
    nowhere = str(tmp_path / "nowhere.pem")
    environment = {**os.environ, "SSL_CERT_FILE": nowhere, "SSL_CERT_DIR": nowhere}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    lines = run.stdout.splitlines()
    assert run.returncode == 0, run.stderr
    assert len(lines) == 2, lines
    for line in lines:
        for words in ("trusted certificates", "tls_ca", "ca-certificates", "SSL_CERT_FILE"):
            assert words in line


def test_ssl_cert_file_is_trusted(folder: Path, server: Secured) -> None:
    program = """
import redlock, sys
with redlock.Redlock(sys.argv[1]) as client, client.lock("job", wait=10) as lease:
    print(lease.held)
"""
    environment = {**os.environ, "SSL_CERT_FILE": str(folder / "ca.crt")}
    words = [sys.executable, "-c", program, server.tls_url]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert run.stdout == "True\n", run.stderr


def test_unix_socket_can_be_a_node(tmp_path: Path, name: str, call: Call) -> None:
    socket = tmp_path / "redis.sock"
    server = Server("--unixsocket", str(socket))
    try:
        with redlock.Redlock(f"unix://{socket}") as client:
            lease = call(client.lock(name), "acquire")
            assert server.client.get(lease.key) == lease.token
            call(lease, "release")
            server.close()
            assert "sock" in str(client.nodes)
            with pytest.raises(redlock.QuorumUnavailable):
                call(client.lock(name, wait=0), "acquire")
    finally:
        server.close()


def test_tls_options_are_checked(tmp_path: Path) -> None:
    url = "rediss://127.0.0.1:1"
    with pytest.raises(redlock.InvalidOption, match="nowhere"):
        redlock.Redlock(url, tls_ca=tmp_path / "nowhere.pem")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=ca"
    )
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    redlock.Redlock(url, tls_ca=str(tmp_path / "ca.crt"), tls_server_name="redis.test")
    with pytest.raises(redlock.InvalidOption, match="tls_key"):
        redlock.Redlock(url, tls_ca=tmp_path / "ca.crt", tls_cert=tmp_path / "ca.crt")


def test_tls_verify_off_accepts_any_certificate_and_warns_once(
    server: Secured, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = folder / "other-ca.crt"
    with (
        redlock.Redlock(server.tls_url, tls_ca=other, tls_verify=True) as strict,
        pytest.raises(redlock.QuorumUnavailable, match="UnknownIssuer"),
    ):
        strict.lock("job").acquire(wait=0)
    caplog.set_level(logging.WARNING, "redlock")
    caplog.clear()
    with redlock.Redlock(server.tls_url, tls_verify=False) as client:
        for _ in range(3):
            client.lock("job").acquire().release()
        # After a reconnect, the message is not repeated.
        server.client.client_kill_filter(_type="normal", skipme=True)
        client.lock("job", wait=5).acquire().release()

    def said() -> list[str]:
        return [text for text in caplog.messages if "tls_verify is off" in text]

    # Records arrive on another thread.
    (text,) = eventually(said)
    assert server.tls_url in text
