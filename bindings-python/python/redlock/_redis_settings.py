"""The settings of redis-py's connections: which are supported, which have no effect on a lock, which are rejected."""

from os import fspath
from typing import Any, NamedTuple

from redlock.errors import InvalidOption

#: The address and credentials of a connection, which are read elsewhere.
ADDRESS_SETTINGS = {"host", "port", "path", "db", "username", "password", "credential_provider"}
#: Settings that become a parameter of the node's URL, and the option that overrides each.
SUPPORTED = {
    "socket_timeout": "node_timeout",
    "socket_connect_timeout": "connect_timeout",
    "client_name": "client_name",
    "ssl_ca_certs": "tls_ca",
    "ssl_certfile": "tls_cert",
    "ssl_keyfile": "tls_key",
    "ssl_cert_reqs": "tls_verify",
}
#: Settings of certificates or addresses without a counterpart, and the option to use instead.
REPLACED = {
    "ssl_ca_data": ("tls_ca", "a PEM file's path, or its bytes"),
    "ssl_ca_path": ("tls_ca", "a PEM file's path, or its bytes"),
    "ssl_password": ("tls_key", "the path of a key without a password"),
    "ssl_check_hostname": ("tls_server_name", "the name that the server's certificate carries"),
}
#: Settings without a counterpart and without an option to use instead.
REJECTED = {
    "ssl_ciphers", "ssl_include_verify_flags", "ssl_exclude_verify_flags", "ssl_min_version", "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled", "ssl_ocsp_context", "ssl_ocsp_expected_cert", "redis_connect_func",
    "min_other_sentinels",
}  # fmt: skip
#: Values of `ssl_cert_reqs` other than these names: None, or a number of `ssl.VerifyMode`.
CERT_REQS = {None: "none", 0: "none", 1: "optional", 2: "required"}
#: Settings without an effect on a lock: how values are decoded, the number of connections, and retries.
IGNORED = {
    "retry_on_timeout", "retry_on_error", "retry", "encoding", "encoding_errors", "decode_responses", "parser_class",
    "encoder_class", "socket_read_size", "socket_type", "socket_keepalive", "socket_keepalive_options",
    "health_check_interval", "lib_name", "lib_version", "driver_info", "protocol", "legacy_responses",
    "command_packer", "event_dispatcher", "himport_registry", "connection_pool", "max_connections", "timeout",
    "cache", "cache_config", "auto_close_connection_pool", "single_connection_client", "connection_class",
    "maintenance_state", "maintenance_notification_hash", "require_full_coverage", "read_from_replicas",
    "load_balancing_strategy", "response_callbacks", "reinitialize_steps", "ssl",
}  # fmt: skip
#: Internal settings of redis-py.
IGNORED_PREFIXES = ("maint_notifications", "orig_", "oss_cluster_")


class Settings(NamedTuple):
    """The converted settings of a connection: parameters of a URL, and names of ignored settings."""

    parameters: dict[str, Any]
    ignored: list[str]


def unsupported(name: str) -> InvalidOption:
    """Returns the error for a setting that must not be ignored."""
    option, what = REPLACED.get(name, (None, ""))
    way = (
        f"give {option}=, {what}"
        if option
        else "write the node's URL, Redlock('rediss://...'), without it"
    )
    return InvalidOption(f"the client's {name} has no equivalent in redlock: {way}")


def read(
    kwargs: dict[str, Any], defaults: dict[str, Any], tls: bool, given: dict[str, Any]
) -> Settings:
    """Returns the settings of a connection as parameters of a URL. Options in `given` override them."""
    found = Settings({}, [])
    for name, value in kwargs.items():
        if name in ADDRESS_SETTINGS or name in IGNORED or name.startswith(IGNORED_PREFIXES):
            continue
        # Skips settings that were not given. For certificates, None is a value.
        by_default = value is None or (name in defaults and _same(value, defaults[name]))
        if by_default and not (tls and name == "ssl_cert_reqs"):
            continue
        if name.startswith("ssl_") and not tls:
            continue
        if name in SUPPORTED:
            if SUPPORTED[name] not in given:
                found.parameters[name] = _converted(name, value)
        elif name in REPLACED:
            if REPLACED[name][0] not in given and not _is_unverified(name, kwargs, given):
                raise unsupported(name)
        elif name in REJECTED:
            if not _has_no_effect(name, value):
                raise unsupported(name)
        elif value or not isinstance(value, (bool, int, str, list, dict)):
            found.ignored.append(name)
    return found


def check_sentinels(own: dict[str, Any], servers: dict[str, Any], tls: bool) -> None:
    """Rejects sentinels whose settings differ from those of their servers, because one URL has both."""
    if own.get("credential_provider") is not None:
        raise InvalidOption(
            "the sentinels have a credential_provider: give username and password in sentinel_kwargs"
        )
    if not tls or not own.get("ssl", False):
        return
    names = {name for name in (*own, *servers) if name.startswith("ssl_")}
    differ = sorted(name for name in names if own.get(name) != servers.get(name))
    if differ:
        raise InvalidOption(
            f"the {', '.join(differ)} of the sentinels and of the servers differ: redlock supports one value for both"
        )


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except Exception:
        return False


def _converted(name: str, value: Any) -> Any:
    if name != "ssl_cert_reqs":
        return as_path(name, value) if name.startswith("ssl_") else value
    # A str, an ssl.VerifyMode, its number, or None, which redis-py treats as "none".
    mode = value if isinstance(value, str) else CERT_REQS.get(value)
    if mode not in CERT_REQS.values():
        raise InvalidOption("the client's ssl_cert_reqs is none of 'none', 'optional', 'required'")
    return mode


def as_path(name: str, value: Any) -> str | bytes:
    """Returns the path of a file or a socket."""
    try:
        path: str | bytes = fspath(value)
    except TypeError:
        raise InvalidOption(
            f"the client's {name}, a {type(value).__name__}, is not a path"
        ) from None
    encodable(name, path)
    return path


def encodable(name: str, value: Any) -> Any:
    """Returns the value if a URL can contain it. A URL cannot contain a lone surrogate."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeError:
        # The text of this error contains the value, which may be a secret.
        pass
    else:
        return value
    raise InvalidOption(
        f"the client's {name} has a character that is half of a surrogate pair: remove it"
    )


def _is_unverified(name: str, kwargs: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether the setting is about certificates, and no certificate is verified."""
    if name == "ssl_password" or given.get("tls_verify") is True:
        return False
    said = _converted("ssl_cert_reqs", kwargs.get("ssl_cert_reqs", "required"))
    return given.get("tls_verify") is False or said == "none"


def _has_no_effect(name: str, value: Any) -> bool:
    """Whether redlock already behaves like this: TLS 1.2 or later, and no checks by OCSP."""
    if name != "ssl_min_version":
        return not value
    return isinstance(value, int) and value <= 0x0303
