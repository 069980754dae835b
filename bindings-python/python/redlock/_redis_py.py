"""What redis-py's clients know of their servers, as our URLs and options say it.

redis itself is never imported here: who passes a client has done that. Its objects are read and not used, so that
nothing connects, and told apart by the names of their classes.
"""

import inspect
import sys
import warnings
from os import fspath
from typing import Any
from urllib.parse import quote, urlencode

from redlock import _redis_settings as settings
from redlock.errors import InvalidOption

#: What a client's kind is called, in the order of looking: a Redis has a pool, a RedisCluster is no Redis.
KINDS = ("RedisCluster", "Sentinel", "Redis", "ConnectionPool")


def taken_over(
    clients: Any, service: str | None, given: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """The nodes' URLs, and the options that the client needs beside those that were given."""
    several = list(clients) if isinstance(clients, (list, tuple)) else [clients]
    if not several:
        raise InvalidOption("no client is given: a list of them has one at least")
    nodes = [_Node(client, service, given) for client in several]
    left_out = sorted({name for node in nodes for name in node.left_out})
    options = {}
    if "credentials" not in given:
        providers = [node.provider for node in nodes]
        if any(provider is not providers[0] for provider in providers):
            raise InvalidOption(
                "the clients have different credential providers, or some have none: "
                "give credentials=, one function for all nodes"
            )
        if providers[0] is not None:
            options["credentials"] = FromProvider(providers[0])
            if hasattr(providers[0], "on_next"):
                left_out.append(
                    "new tokens of the credential_provider, which is asked at each connect"
                )
    if left_out:
        text = f"without a counterpart in redlock, and left out: {', '.join(left_out)}"
        warnings.warn(text, UserWarning, stacklevel=3)
    return [node.url for node in nodes], options


class FromProvider:
    """A credential provider of redis-py, as `credentials=` asks."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    def __call__(self) -> Any:
        try:
            answer = self.provider.get_credentials()
        except NotImplementedError:
            # One for asyncio alone; we are asked on a thread without a loop.
            import asyncio

            answer = asyncio.run(self.provider.get_credentials_async())
        if not isinstance(answer, tuple) or len(answer) not in (1, 2):
            return answer
        # redis-py sends bytes and numbers, too.
        *user, password = (
            word.decode() if isinstance(word, bytes) else str(word) if _is_number(word) else word
            for word in answer
        )
        return (user[0] or None, password) if user else password


def _kind(client: Any) -> str | None:
    for cls in type(client).__mro__:
        if cls.__module__.partition(".")[0] == "redis" and cls.__name__ in KINDS:
            return cls.__name__
    return None


class _Node:
    """One client: where it goes, as a URL."""

    def __init__(self, client: Any, service: str | None, given: dict[str, Any]) -> None:
        self.given = given
        self.provider: Any = None
        self.left_out: list[str] = []
        kind = _kind(client)
        if service is not None and kind != "Sentinel":
            raise InvalidOption("service is given, and the client is no Sentinel: leave it out")
        if kind == "RedisCluster":
            self._cluster(client)
        elif kind == "Sentinel":
            if service is None:
                raise InvalidOption(
                    "a Sentinel watches many services: give service=, the one to use"
                )
            kwargs = dict(client.connection_kwargs)
            self._sentinel(client, service, kwargs, bool(kwargs.pop("ssl", False)))
        elif kind is not None:
            self._pool(client if kind == "ConnectionPool" else client.connection_pool)
        else:
            # Not shown: its text may have a password in it.
            raise InvalidOption(
                f"a client is of type {type(client).__name__}: it must be redis-py's Redis, ConnectionPool, Sentinel "
                "or RedisCluster, sync or asyncio; for others write the node's URL: Redlock('redis://...')"
            )

    def _pool(self, pool: Any) -> None:
        kwargs = dict(pool.connection_kwargs)
        # Not one of its own: what it does to a connection, nobody here knows.
        cls = pool.connection_class
        if cls.__module__.partition(".")[0] != "redis":
            raise InvalidOption(
                f"the client's connections are of class {cls.__name__}, which is not redis-py's: write the node's URL, "
                "Redlock('redis://...'), or 'memory://' for a server that is none"
            )
        maker = getattr(type(pool), "make_connection", None)
        if getattr(maker, "__module__", "").partition(".")[0] != "redis":
            raise InvalidOption(
                f"the client's pool is of class {type(pool).__name__}, whose connections are made in a way of its own: "
                "write the node's URL, Redlock('redis://...')"
            )
        tls = "SSL" in cls.__name__
        manager = getattr(pool, "sentinel_manager", None)
        if manager is not None:
            if not pool.is_master:
                raise InvalidOption(
                    "the client is for replicas: a lock needs the primary, master_for()"
                )
            self._sentinel(manager, pool.service_name, kwargs, tls)
        elif "path" in kwargs:
            parameters = self._parameters(kwargs, cls, tls)
            # A path has no place for these but behind the ?.
            names = () if self._asks(kwargs) else ("username", "password")
            words = {name: _word(name, kwargs) for name in names} | {"db": kwargs.get("db")}
            parameters |= {name: word for name, word in words.items() if word}
            self.url = f"unix://{quote(fspath(kwargs['path']))}{_query(parameters)}"
        else:
            parameters = self._parameters(kwargs, cls, tls)
            host = _host(kwargs.get("host", "localhost"), kwargs.get("port", 6379))
            login = self._login(kwargs)
            self.url = f"{_scheme(tls)}://{login}{host}{_path(kwargs)}{_query(parameters)}"

    def _sentinel(self, manager: Any, service: str, kwargs: dict[str, Any], tls: bool) -> None:
        for name in ("min_other_sentinels", "_force_master_ip"):
            if getattr(manager, name, None):
                raise settings.refused(name.lstrip("_"))
        parameters = self._parameters(kwargs, None, tls)
        own = dict(manager.sentinel_kwargs)
        settings.check_sentinels(own, kwargs, tls)
        for name in ("username", "password"):
            if own.get(name):
                parameters[f"sentinel_{name}"] = own[name]
        places = [each.connection_pool.connection_kwargs for each in manager.sentinels]
        hosts = ",".join(_host(place["host"], place["port"]) for place in places)
        login = self._login(kwargs)
        path = f"/{quote(service, safe='')}{_path(kwargs)}"
        self.url = f"{_scheme(tls)}+sentinel://{login}{hosts}{path}{_query(parameters)}"

    def _cluster(self, client: Any) -> None:
        manager = client.nodes_manager
        kwargs = dict(getattr(client, "connection_kwargs", None) or manager.connection_kwargs)
        if getattr(manager, "address_remap", None):
            raise settings.refused("address_remap")
        # Its own, and asynchronous ones have their connections' class among them.
        for name in ("redis_connect_func", "address_remap"):
            kwargs.pop(name, None)
        cls = kwargs.pop("connection_class", None)
        tls = bool(kwargs.pop("ssl", False)) or (cls is not None and "SSL" in cls.__name__)
        parameters = self._parameters(kwargs, cls, tls)
        places = list(manager.startup_nodes.values())
        hosts = ",".join(_host(place.host, place.port) for place in places)
        login = self._login(kwargs)
        self.url = f"{_scheme(tls)}+cluster://{login}{hosts}{_query(parameters)}"

    def _parameters(self, kwargs: dict[str, Any], cls: Any, tls: bool) -> dict[str, Any]:
        found = settings.read(kwargs, _defaults(cls), tls, self.given)
        self.left_out += found.left_out
        return found.parameters

    def _asks(self, kwargs: dict[str, Any]) -> bool:
        """Whether somebody else than the URL says as whom to log in."""
        self.provider = kwargs.get("credential_provider")
        return self.provider is not None or "credentials" in self.given

    def _login(self, kwargs: dict[str, Any]) -> str:
        if self._asks(kwargs):
            return ""
        user, password = (quote(_word(name, kwargs), safe="") for name in ("username", "password"))
        # A user alone is refused by its URL, which says why.
        return f"{user}:{password}@" if password else f"{user}@" if user else ""


def _scheme(tls: bool) -> str:
    return "rediss" if tls else "redis"


def _host(host: Any, port: Any) -> str:
    # Where a name had one of these, its URL would lead elsewhere, and take the password along.
    if not isinstance(host, str) or not host or set(host) & set("/?#@,[]\\ \t\r\n"):
        raise InvalidOption(f"a client's host is {host!r}: it must be a host's name or address")
    try:
        number = int(port)
    except (TypeError, ValueError):
        raise InvalidOption(f"a client's port is {port!r}: it must be a number") from None
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def _word(name: str, kwargs: dict[str, Any]) -> str:
    """A user or a password, which redis-py takes as bytes and as a number, too."""
    value, encoding = kwargs.get(name), kwargs.get("encoding") or "utf-8"
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        return str(value or "")
    try:
        text = value if isinstance(value, str) else bytes(value).decode()
        if not isinstance(value, str) or value.encode(encoding) == value.encode():
            return text
    except (UnicodeError, LookupError):
        # Its own text has the password in it.
        pass
    raise InvalidOption(
        f"the client sends its {name} as {encoding}, and redlock as utf-8, which is another one, or none: give it "
        "letters of ASCII, or write the node's URL, Redlock('redis://...'), with what the server expects"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _path(kwargs: dict[str, Any]) -> str:
    return f"/{int(kwargs['db'])}" if kwargs.get("db") else ""


def _query(parameters: dict[str, Any]) -> str:
    return f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""


def _defaults(cls: Any) -> dict[str, Any]:
    """What redis-py takes for settings that nobody gave, by the signatures of its own classes."""
    modules = (sys.modules.get("redis.connection"), sys.modules.get("redis.asyncio.connection"))
    bases = [getattr(module, "SSLConnection", object) for module in modules]
    found: dict[str, Any] = {}
    for owner in (each for start in (cls or object, *bases) for each in start.__mro__):
        init = vars(owner).get("__init__")
        if inspect.isfunction(init):
            for name, parameter in inspect.signature(init).parameters.items():
                found.setdefault(name, parameter.default)
    return found
