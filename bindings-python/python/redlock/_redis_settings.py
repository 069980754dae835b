"""The settings of redis-py's connections: which are taken over, which mean nothing to a lock, which are refused."""

from os import fspath
from typing import Any, NamedTuple

from redlock.errors import InvalidOption

#: The address and credentials of a connection, which are read elsewhere.
PLACE = {"host", "port", "path", "db", "username", "password", "credential_provider"}
#: As a URL's parameter, and the option that says it instead.
TAKEN = {
    "socket_timeout": "node_timeout",
    "socket_connect_timeout": "connect_timeout",
    "client_name": "client_name",
    "ssl_ca_certs": "tls_ca",
    "ssl_certfile": "tls_cert",
    "ssl_keyfile": "tls_key",
    "ssl_cert_reqs": "tls_verify",
}
#: Settings of trust or address without a counterpart, and the option to use instead.
REFUSED = {
    "ssl_ca_data": ("tls_ca", "a PEM file's path, or its bytes"),
    "ssl_ca_path": ("tls_ca", "a PEM file's path, or its bytes"),
    "ssl_password": ("tls_key", "the path of a key without a password"),
    "ssl_check_hostname": ("tls_server_name", "the name that the server's certificate carries"),
}
#: Those without any other way than a URL, or none.
NO_WAY = {
    "ssl_ciphers", "ssl_include_verify_flags", "ssl_exclude_verify_flags", "ssl_min_version", "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled", "ssl_ocsp_context", "ssl_ocsp_expected_cert", "redis_connect_func", "address_remap",
    "force_master_ip", "min_other_sentinels",
}  # fmt: skip
#: What `ssl_cert_reqs` may be, beside these words themselves.
WORDS = {None: "none", 0: "none", 1: "optional", 2: "required"}
#: Of no effect on a lock: how values are read, how many connections there are, when what is tried again.
NOTHING = {
    "retry_on_timeout", "retry_on_error", "retry", "encoding", "encoding_errors", "decode_responses", "parser_class",
    "encoder_class", "socket_read_size", "socket_type", "socket_keepalive", "socket_keepalive_options",
    "health_check_interval", "lib_name", "lib_version", "driver_info", "protocol", "legacy_responses",
    "command_packer", "event_dispatcher", "himport_registry", "connection_pool", "max_connections", "timeout",
    "cache", "cache_config", "auto_close_connection_pool", "single_connection_client", "connection_class",
    "maintenance_state", "maintenance_notification_hash", "require_full_coverage", "read_from_replicas",
    "load_balancing_strategy", "response_callbacks", "reinitialize_steps", "ssl",
}  # fmt: skip
#: Those of redis-py for itself.
NOTHING_BEGINS = ("maint_notifications", "orig_", "oss_cluster_")


class Read(NamedTuple):
    """What becomes of a connection's settings."""

    parameters: dict[str, Any]
    left_out: list[str]


def refused(name: str) -> InvalidOption:
    """The error for a setting that cannot be left out."""
    option, what = REFUSED.get(name, (None, ""))
    way = (
        f"give {option}=, {what}"
        if option
        else "write the node's URL, Redlock('rediss://...'), without it"
    )
    return InvalidOption(f"the client's {name} has no equivalent in redlock: {way}")


def read(
    kwargs: dict[str, Any], defaults: dict[str, Any], tls: bool, given: dict[str, Any]
) -> Read:
    """A connection's settings as parameters of a URL. Options that are given win, where one says the same."""
    found = Read({}, [])
    for name, value in kwargs.items():
        if name in PLACE or name in NOTHING or name.startswith(NOTHING_BEGINS):
            continue
        # Skips settings that were not given. For certificates, None is a value.
        by_default = value is None or (name in defaults and _same(value, defaults[name]))
        if by_default and not (tls and name == "ssl_cert_reqs"):
            continue
        if name.startswith("ssl_") and not tls:
            continue
        if name in TAKEN:
            if TAKEN[name] not in given:
                found.parameters[name] = _written(name, value)
        elif name in REFUSED:
            if REFUSED[name][0] not in given and not _verifies_nothing(name, kwargs, given):
                raise refused(name)
        elif name in NO_WAY:
            if not _is_met(name, value):
                raise refused(name)
        elif value or not isinstance(value, (bool, int, str, list, dict)):
            found.left_out.append(name)
    return found


def check_sentinels(own: dict[str, Any], servers: dict[str, Any], tls: bool) -> None:
    """Refuses sentinels that are reached in another way than their servers: one URL is for both."""
    if bool(own.get("ssl", False)) is not tls:
        raise InvalidOption(
            "the sentinels and their servers are not both reached by TLS: give ssl in sentinel_kwargs as for servers"
        )
    if own.get("credential_provider") is not None:
        raise InvalidOption(
            "the sentinels have a credential_provider: give username and password in sentinel_kwargs"
        )
    names = {name for name in (*own, *servers) if name.startswith("ssl_")}
    differ = sorted(name for name in names if own.get(name) != servers.get(name))
    if differ:
        raise InvalidOption(
            f"the sentinels' and the servers' {', '.join(differ)} differ: one for both has a counterpart in redlock"
        )


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except Exception:
        return False


def _written(name: str, value: Any) -> Any:
    if name != "ssl_cert_reqs":
        return as_path(name, value) if name.startswith("ssl_") else value
    # A str, an ssl.VerifyMode or its number, or None, which redis-py takes for none.
    word = value if isinstance(value, str) else WORDS.get(value)
    if word not in WORDS.values():
        raise InvalidOption("the client's ssl_cert_reqs is none of 'none', 'optional', 'required'")
    return word


def as_path(name: str, value: Any) -> str | bytes:
    """Where a file or a socket is."""
    try:
        path: str | bytes = fspath(value)
    except TypeError:
        raise InvalidOption(f"the client's {name}, a {type(value).__name__}, is no path") from None
    sendable(name, path)
    return path


def sendable(name: str, value: Any) -> Any:
    """The value, where it can stand in a URL: a lone surrogate cannot."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeError:
        # Its own text has the value in it, which may be a secret.
        pass
    else:
        return value
    raise InvalidOption(
        f"the client's {name} has a character that is none: half of a surrogate pair"
    )


def _verifies_nothing(name: str, kwargs: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether it is about certificates that are not looked at anyway."""
    if name == "ssl_password" or given.get("tls_verify") is True:
        return False
    said = _written("ssl_cert_reqs", kwargs.get("ssl_cert_reqs", "required"))
    return given.get("tls_verify") is False or said == "none"


def _is_met(name: str, value: Any) -> bool:
    """Whether it asks for nothing that is not so here anyway: TLS 1.2 at least, no checks by OCSP."""
    if name != "ssl_min_version":
        return not value
    return isinstance(value, int) and value <= 0x0303
