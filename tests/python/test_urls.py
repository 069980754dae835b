"""Node URLs in the formats of other clients (vectors/urls.toml), and options beside them."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.servers import Server, Silent
from tests.waiting import eventually

from . import certificates
from .test_tls import Secured
from .test_vectors import about, table, verify

URLS = table("urls")["url"]


@pytest.mark.parametrize("row", URLS, ids=about)
def test_parameters_of_other_clients_are_understood_or_refused_by_name(
    row: dict[str, Any], silent: list[Silent]
) -> None:
    def here(text: str) -> str:
        return re.sub("[<>]", "", text.replace("PORT", str(silent[0].port)))

    words = {key: [*map(here, row[key])] for key in ("error",) if key in row}
    options = row.get("options", {})
    verify(row | words, lambda: redlock.Redlock(here(row["node"]), **options))
    if "shown" in row:
        client = redlock.Redlock(here(row["node"]), **options)
        assert client.nodes == [here(row["shown"])]


def test_client_name_and_database_reach_the_server(redis_server: Server) -> None:
    url = f"redis://127.0.0.1:{redis_server.port}"
    clients = [
        redlock.Redlock(f"{url}?db=3&client_name=by-url"),
        redlock.Redlock(url, client_name="by-option"),
        redlock.Redlock(url),
    ]
    for client in clients:
        client.lock("named").acquire().release()
    listed = {each["name"]: each for each in redis_server.client.client_list()}
    assert listed["by-url"]["db"] == "3"
    assert {"by-option", "redlock"} <= {*listed}
    for client in clients:
        client.close()


def test_tls_verify_off_accepts_any_certificate_and_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates.make(tmp_path)
    server = Secured(tmp_path, "no")
    other = tmp_path / "other-ca.crt"
    try:
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

        def said() -> list[logging.LogRecord]:
            return [one for one in caplog.records if "tls_verify is off" in one.getMessage()]

        # Records arrive on another thread.
        eventually(lambda: bool(said()))
        assert len(said()) == 1
        assert server.tls_url in said()[0].getMessage()
    finally:
        server.close()
