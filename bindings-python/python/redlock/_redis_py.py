"""Converts redis-py's clients to node URLs and options.

This module never imports redis, because a program that passes a client has already imported it. It recognises the
objects by the names of their classes, and only reads them, so that nothing connects.
"""

import inspect
import sys
import warnings
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from redlock import _redis_login as login
from redlock import _redis_settings as settings
from redlock.errors import InvalidOption

#: The kinds of clients, in the order in which they are checked. A Redis has a pool, and a RedisCluster is not a Redis.
KINDS = ("RedisCluster", "Sentinel", "Redis", "ConnectionPool")


def read_clients(
    clients: Any, service: str | None, given: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """Returns the nodes' URLs, and the options that the client needs in addition to those in `given`."""
    several = list(clients) if isinstance(clients, (list, tuple)) else [clients]
    if not several:
        raise InvalidOption("no client is given: pass one or more")
    nodes = [_Node(client, service, given) for client in several]
    ignored = sorted({name for node in nodes for name in node.ignored})
    options: dict[str, Any] = {}
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
                    "the clients encode the result of their credential provider differently: give credentials=, "
                    "one function for all nodes"
                )
            options["credentials"] = login.FromProvider(providers[0], encodings.pop())
            if hasattr(providers[0], "on_next"):
                ignored.append(
                    "new tokens of the credential_provider, which is only called at each connect"
                )
    maps = [node.address_map for node in nodes if node.address_map is not None]
    if "address_map" not in given and maps:
        if any(each != maps[0] for each in maps):
            raise InvalidOption(
                "the clients have different address_remap functions: give address_map=, one for all nodes"
            )
        options["address_map"] = maps[0]
    if ignored:
        text = f"settings without a counterpart in redlock are ignored: {', '.join(ignored)}"
        warnings.warn(text, UserWarning, stacklevel=3)
    return [node.url for node in nodes], options


def _kind(client: Any) -> str | None:
    for cls in type(client).__mro__:
        if cls.__module__.partition(".")[0] == "redis" and cls.__name__ in KINDS:
            return cls.__name__
    return None


class FromRemap(NamedTuple):
    """The `force_master_ip` or `address_remap` of redis-py as a function for `address_map=`."""

    host: str | None
    remap: Any

    def __call__(self, host: str, port: int) -> Any:
        return (self.host, port) if self.remap is None else self.remap((host, port))


class _Node:
    """One client, converted to the URL of a node."""

    def __init__(self, client: Any, service: str | None, given: dict[str, Any]) -> None:
        self.given = given
        self.provider: Any = None
        self.encoding = "utf-8"
        self.ignored: list[str] = []
        self.address_map: FromRemap | None = None
        kind = _kind(client)
        if service is not None and kind != "Sentinel":
            raise InvalidOption("service is given, but the client is not a Sentinel: omit service")
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
            # The object is not shown, because its text may contain a password.
            raise InvalidOption(
                f"a client is of type {type(client).__name__}: it must be redis-py's Redis, ConnectionPool, Sentinel "
                "or RedisCluster, sync or asyncio. For other clients write the node's URL, Redlock('redis://...')"
            )

    def _pool(self, pool: Any) -> None:
        kwargs = dict(pool.connection_kwargs)
        # A custom class is rejected, because it may change the connection in an unknown way.
        cls = pool.connection_class
        if cls.__module__.partition(".")[0] != "redis":
            raise InvalidOption(
                f"the client's connections are of class {cls.__name__}, which is not redis-py's: write the node's URL, "
                "Redlock('redis://...'), or 'memory://' to use no server"
            )
        maker = getattr(type(pool), "make_connection", None)
        if getattr(maker, "__module__", "").partition(".")[0] != "redis":
            raise InvalidOption(
                f"the client's pool is of class {type(pool).__name__}, which creates its connections itself: "
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
            # A URL with a path contains these only as parameters.
            names = () if self._uses_provider(kwargs) else ("username", "password")
            words = {name: login.text_of(name, kwargs) for name in names} | {"db": kwargs.get("db")}
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
        if getattr(manager, "min_other_sentinels", None):
            raise settings.unsupported("min_other_sentinels")
        host = getattr(manager, "_force_master_ip", None)
        if host:
            self.address_map = FromRemap(host, None)
        own = dict(manager.sentinel_kwargs)
        sentinel_tls = bool(own.get("ssl", False))
        # The parameters of TLS are those of the side that uses it.
        secured = kwargs | {name: own[name] for name in own if name.startswith("ssl_")}
        parameters = self._parameters(kwargs if tls else secured, None, tls or sentinel_tls)
        settings.check_sentinels(own, kwargs, tls)
        if sentinel_tls is not tls:
            parameters["sentinel_tls"] = str(sentinel_tls).lower()
        for name in ("username", "password"):
            if own.get(name):
                parameters[f"sentinel_{name}"] = login.text_of(name, own)
        places = [each.connection_pool.connection_kwargs for each in manager.sentinels]
        hosts = ",".join(_host(place["host"], place["port"]) for place in places)
        path = f"/{quote(settings.encodable('service', service), safe='')}{_path(kwargs)}"
        self.url = (
            f"{_scheme(tls)}+sentinel://{self._login(kwargs)}{hosts}{path}{_query(parameters)}"
        )

    def _cluster(self, client: Any) -> None:
        manager = client.nodes_manager
        kwargs = dict(getattr(client, "connection_kwargs", None) or manager.connection_kwargs)
        remap = getattr(manager, "address_remap", None)
        if remap:
            self.address_map = FromRemap(None, remap)
        # Settings of the cluster client itself. Asynchronous ones also contain the class of their connections.
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
        self.ignored += found.ignored
        return found.parameters

    def _uses_provider(self, kwargs: dict[str, Any]) -> bool:
        """Whether the credentials come from a provider or an option instead of the URL."""
        self.provider = kwargs.get("credential_provider")
        self.encoding = login.encoding(kwargs)
        return self.provider is not None or "credentials" in self.given

    def _login(self, kwargs: dict[str, Any]) -> str:
        if self._uses_provider(kwargs):
            return ""
        user, password = (
            quote(login.text_of(name, kwargs), safe="") for name in ("username", "password")
        )
        # A URL with only a user is rejected, and its error says why.
        return f"{user}:{password}@" if password else f"{user}@" if user else ""


def _scheme(tls: bool) -> str:
    return "rediss" if tls else "redis"


def _host(host: Any, port: Any) -> str:
    # With one of these characters, the URL would have another host, which would receive the password.
    if not isinstance(host, str) or not host or set(host) & set("/?#@,[]\\ \t\r\n"):
        # Not shown, because a program may have passed a URL with a user and password, which must not be logged.
        raise InvalidOption(
            f"a client's host, a {type(host).__name__} that is not shown, is not the name or address of a host: "
            "use separate settings for user, password, port and db"
        )
    number = _number("port", port)
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def _number(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        # The text of this error shows the value.
        number = None
    if number is None or abs(number) >= 2**31:
        raise InvalidOption(f"a client's {name}, a {type(value).__name__}, is not a valid number")
    return number


def _path(kwargs: dict[str, Any]) -> str:
    return f"/{_number('db', kwargs['db'])}" if kwargs.get("db") else ""


def _query(parameters: dict[str, Any]) -> str:
    sent = {name: settings.encodable(name, value) for name, value in parameters.items()}
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
