"""What redis-py's clients know of their servers, as our URLs and options say it.

redis itself is never imported here: who passes a client has done that. Its objects are read and not used, so that
nothing connects, and told apart by the names of their classes.
"""

import inspect
import sys
import warnings
from typing import Any
from urllib.parse import quote, urlencode

from redlock import _redis_login as login
from redlock import _redis_settings as settings
from redlock.errors import InvalidOption

#: The kinds of clients, in the order in which they are checked. A Redis has a pool, and a RedisCluster is not a Redis.
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
        encodings = {node.encoding for node in nodes}
        if any(provider is not providers[0] for provider in providers):
            raise InvalidOption(
                "the clients have different credential providers, or some have none: "
                "give credentials=, one function for all nodes"
            )
        if providers[0] is not None:
            if len(encodings) > 1:
                raise InvalidOption(
                    "the clients send what their credential provider gives in different encodings: give credentials=, "
                    "one function for all nodes"
                )
            options["credentials"] = login.FromProvider(providers[0], encodings.pop())
            if hasattr(providers[0], "on_next"):
                left_out.append(
                    "new tokens of the credential_provider, which is asked at each connect"
                )
    if left_out:
        text = f"without a counterpart in redlock, and left out: {', '.join(left_out)}"
        warnings.warn(text, UserWarning, stacklevel=3)
    return [node.url for node in nodes], options


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
        self.encoding = "utf-8"
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
        # A custom class is rejected, because it may change the connection in an unknown way.
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
            words = {name: login.word(name, kwargs) for name in names} | {"db": kwargs.get("db")}
            parameters |= {name: word for name, word in words.items() if word}
            self.url = (
                f"unix://{quote(settings.as_path('path', kwargs['path']))}{_query(parameters)}"
            )
        else:
            parameters = self._parameters(kwargs, cls, tls)
            host = _host(kwargs.get("host", "localhost"), kwargs.get("port", 6379))
            self.url = (
                f"{_scheme(tls)}://{self._login(kwargs)}{host}{_path(kwargs)}{_query(parameters)}"
            )

    def _sentinel(self, manager: Any, service: str, kwargs: dict[str, Any], tls: bool) -> None:
        for name in ("min_other_sentinels", "_force_master_ip"):
            if getattr(manager, name, None):
                raise settings.refused(name.lstrip("_"))
        parameters = self._parameters(kwargs, None, tls)
        own = dict(manager.sentinel_kwargs)
        settings.check_sentinels(own, kwargs, tls)
        for name in ("username", "password"):
            if own.get(name):
                parameters[f"sentinel_{name}"] = login.word(name, own)
        places = [each.connection_pool.connection_kwargs for each in manager.sentinels]
        hosts = ",".join(_host(place["host"], place["port"]) for place in places)
        path = f"/{quote(settings.sendable('service', service), safe='')}{_path(kwargs)}"
        self.url = (
            f"{_scheme(tls)}+sentinel://{self._login(kwargs)}{hosts}{path}{_query(parameters)}"
        )

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
        self.url = f"{_scheme(tls)}+cluster://{self._login(kwargs)}{hosts}{_query(parameters)}"

    def _parameters(self, kwargs: dict[str, Any], cls: Any, tls: bool) -> dict[str, Any]:
        found = settings.read(kwargs, _defaults(cls), tls, self.given)
        self.left_out += found.left_out
        return found.parameters

    def _asks(self, kwargs: dict[str, Any]) -> bool:
        """Whether the credentials come from a provider or an option instead of the URL."""
        self.provider = kwargs.get("credential_provider")
        self.encoding = login.encoding(kwargs)
        return self.provider is not None or "credentials" in self.given

    def _login(self, kwargs: dict[str, Any]) -> str:
        if self._asks(kwargs):
            return ""
        user, password = (
            quote(login.word(name, kwargs), safe="") for name in ("username", "password")
        )
        # A user alone is refused by its URL, which says why.
        return f"{user}:{password}@" if password else f"{user}@" if user else ""


def _scheme(tls: bool) -> str:
    return "rediss" if tls else "redis"


def _host(host: Any, port: Any) -> str:
    # Where a name had one of these, its URL would lead elsewhere, and take the password along.
    if not isinstance(host, str) or not host or set(host) & set("/?#@,[]\\ \t\r\n"):
        # Not shown, because a program may have passed a URL with a user and password, which must not be logged.
        raise InvalidOption(
            f"a client's host, a {type(host).__name__} that is not shown, is no host's name or address: "
            "user, password, port and db have settings of their own"
        )
    number = _number("port", port)
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def _number(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        # Its own text shows the value.
        number = None
    if number is None or abs(number) >= 2**31:
        raise InvalidOption(
            f"a client's {name}, a {type(value).__name__}, is no number that it may be"
        )
    return number


def _path(kwargs: dict[str, Any]) -> str:
    return f"/{_number('db', kwargs['db'])}" if kwargs.get("db") else ""


def _query(parameters: dict[str, Any]) -> str:
    sent = {name: settings.sendable(name, value) for name, value in parameters.items()}
    return f"?{urlencode(sent, quote_via=quote)}" if sent else ""


def _defaults(cls: Any) -> dict[str, Any]:
    """Returns the default values of redis-py's settings, from the signatures of its classes."""
    modules = (sys.modules.get("redis.connection"), sys.modules.get("redis.asyncio.connection"))
    bases = [getattr(module, "SSLConnection", object) for module in modules]
    found: dict[str, Any] = {}
    for owner in (each for start in (cls or object, *bases) for each in start.__mro__):
        init = vars(owner).get("__init__")
        if inspect.isfunction(init):
            for name, parameter in inspect.signature(init).parameters.items():
                found.setdefault(name, parameter.default)
    return found
