/** Reads the connection settings of node-redis clients. */

import type { CredentialsSource } from "../options/credentials.js";
import type { RedlockOptions } from "../options/options.js";
import {
  type ClientSettings,
  type ConnectionSettings,
  parseUrl,
  rejected,
  type Settings,
  toSettings,
  unsupported,
} from "./foreign-settings.js";

const nameSet = (text: string) => new Set(text.split(/\s+/));

/**
 * Settings that do not affect a lock, such as how commands are sent, values are read, and the number of connections.
 */
const IGNORED =
  nameSet(`RESP clientInfoTag clientSideCache commandOptions commands commandsQueueMaxLength
  disableClientInfo disableOfflineQueue emitInvalidate functions isolationPoolOptions legacyMode maintEndpointType
  maintNotifications maintRelaxedCommandTimeout maintRelaxedSocketTimeout modules pingInterval scripts unstableResp3`);
/** Settings of a socket that do not affect a lock, such as keepalive and reconnects. */
const SOCKET_IGNORED = nameSet(
  `keepAlive keepAliveInitialDelay noDelay reconnectStrategy socketTimeout`,
);
const SUPPORTED = nameSet(
  `credentialsProvider database name password readonly socket url username`,
);
const SOCKET_SUPPORTED = nameSet("connectTimeout family host path port tls");
/** Settings of a socket that decide which server is used, and have no counterpart. */
const SOCKET_REJECTED = ["lookup", "localAddress", "localPort"];
/** Settings of a cluster or a Sentinel service that do not affect a lock. */
const GROUP_SETTINGS =
  nameSet(`RESP clientSideCache commandOptions commands defaults functions masterPoolSize maxCommandRediscovers
  maxCommandRedirections minimizeConnections modules name nodeAddressMap nodeClientOptions passthroughClientErrorEvents
  replicaPoolSize reserveClient rootNodes scanInterval scripts sentinelClientOptions sentinelRootNodes useReplicas`);
const CONNECT_TIMEOUT = 5_000;

/** Returns undefined for an object that is not a node-redis client. */
export function readNodeRedis(client: Settings, given: RedlockOptions): ClientSettings | undefined {
  const group = (client._options ?? client) as Settings;
  if (Array.isArray(group.rootNodes)) return cluster(group, group.rootNodes, given);
  if (Array.isArray(group.sentinelRootNodes)) {
    return service(group, group.sentinelRootNodes, given);
  }
  const commands = typeof client.sendCommand === "function" || typeof client.execute === "function";
  const { options } = client;
  if (commands && typeof options === "object" && options !== null) {
    return single(options as Settings, given);
  }
  if (!commands) return undefined;
  throw rejected(
    "node-redis pools, sentinels and version 4 clusters do not expose their settings",
    "Pass the options of createSentinel or createCluster, or a client of createClient",
  );
}

function single(written: Settings, given: RedlockOptions): ClientSettings {
  const own = withUrl(written);
  const socket = toSettings(own.socket);
  if (own.readonly) throw unsupported("readonly", "A lock needs the primary");
  for (const name of SOCKET_REJECTED) if (socket[name]) throw unsupported(`socket.${name}`);
  const { tls, connectTimeout } = socket;
  const settings: ConnectionSettings = {
    hosts: [socket],
    scheme: "",
    path: socket.path,
    username: own.username,
    password: own.password,
    db: own.database,
    family: socket.family,
    clientName: own.name,
    nodeTimeout: toSettings(own.commandOptions).timeout,
    connectTimeout: connectTimeout === CONNECT_TIMEOUT ? undefined : connectTimeout,
    tls: tls ? tlsSettings(socket) : undefined,
  };
  return {
    settings,
    ignored: unknownSettings(own, socket, Boolean(tls)),
    provider: providerOf(own, given),
  };
}

function cluster(group: Settings, written: unknown[], given: RedlockOptions): ClientSettings {
  const defaults = toSettings(group.defaults);
  const shared = toSettings(defaults.socket);
  const nodes = written.map((each) => {
    const own = withUrl(toSettings(each));
    return single(
      { ...defaults, ...own, url: undefined, socket: { ...shared, ...toSettings(own.socket) } },
      given,
    );
  });
  const [first] = nodes;
  if (first === undefined) throw rejected("the cluster has no rootNodes", "Add at least one");
  for (const other of nodes) assertSameSettings(first.settings, other.settings);
  const hosts = nodes.flatMap(({ settings }) => settings.hosts);
  const ignored = [...unknownGroupSettings(group), ...nodes.flatMap((node) => node.ignored)];
  const settings = { ...first.settings, hosts, db: 0, scheme: "+cluster" } as const;
  return { ...first, settings, ignored, addressMap: group.nodeAddressMap ?? undefined };
}

function service(group: Settings, sentinels: unknown[], given: RedlockOptions): ClientSettings {
  const servers = single(toSettings(group.nodeClientOptions), given);
  const own = single(toSettings(group.sentinelClientOptions), given);
  const [tls, sentinelTls] = [servers.settings.tls, own.settings.tls];
  if (tls && sentinelTls && JSON.stringify(tls) !== JSON.stringify(sentinelTls)) {
    throw rejected(
      "the TLS settings of the sentinels and of their servers differ",
      "Use the same for both",
    );
  }
  const settings: ConnectionSettings = {
    ...servers.settings,
    hosts: sentinels.map(toSettings),
    path: undefined,
    service: group.name,
    sentinelUsername: own.settings.username,
    sentinelPassword: own.settings.password,
    tls: tls ?? sentinelTls,
    sentinelTls: Boolean(tls) === Boolean(sentinelTls) ? undefined : Boolean(sentinelTls),
    scheme: "+sentinel",
  };
  return {
    ...servers,
    settings,
    ignored: [...unknownGroupSettings(group), ...servers.ignored, ...own.ignored],
    addressMap: group.nodeAddressMap ?? undefined,
  };
}

/** Applies a URL that node-redis has not parsed yet. As in node-redis, it overrides the other settings. */
function withUrl(own: Settings): Settings {
  if (typeof own.url !== "string") return own;
  const url = parseUrl(own.url);
  const socket: Record<string, unknown> = { ...toSettings(own.socket) };
  if (url.protocol === "unix:") socket.path = decodeURIComponent(url.pathname);
  else socket.host = decodeURIComponent(url.hostname).replace(/^\[|\]$/g, "");
  if (url.port) socket.port = Number(url.port);
  if (url.protocol === "rediss:") socket.tls = true;
  const login: Record<string, unknown> = {};
  if (url.username) login.username = decodeURIComponent(url.username);
  if (url.password) login.password = decodeURIComponent(url.password);
  if (url.pathname.length > 1 && url.protocol !== "unix:")
    login.database = Number(url.pathname.slice(1));
  return { ...own, ...login, socket, url: undefined };
}

/** Returns the TLS settings of a socket. */
function tlsSettings(socket: Settings): Settings {
  const other = (name: string) => SOCKET_SUPPORTED.has(name) || SOCKET_IGNORED.has(name);
  return Object.fromEntries(Object.entries(socket).filter(([name]) => !other(name)));
}

/** Returns the provider's function, unless a password or `credentials` option is given. */
function providerOf(own: Settings, given: RedlockOptions): CredentialsSource | undefined {
  const provider = own.credentialsProvider as Settings | undefined;
  if (provider === undefined || own.password || given.credentials !== undefined) return undefined;
  const { credentials } = provider;
  if (typeof credentials !== "function") {
    throw unsupported("streaming credentialsProvider", "Set credentials to a function");
  }
  let known = sources.get(provider);
  if (known === undefined) {
    known = async () => {
      const { username, password } = await credentials.call(provider);
      return { username, password: password ?? "" };
    };
    sources.set(provider, known);
  }
  return known;
}

/** One function for each provider, so that nodes with the same provider share it. */
const sources = new WeakMap<object, CredentialsSource>();

function assertSameSettings(first: ConnectionSettings, other: ConnectionSettings): void {
  const comparable = ({ hosts, ...rest }: ConnectionSettings) => JSON.stringify(rest);
  if (comparable(first) === comparable(other)) return;
  throw rejected("the settings of the rootNodes differ", "Set them once, in defaults");
}

function unknownSettings(own: Settings, socket: Settings, tls: boolean): string[] {
  const ignored = Object.keys(own).filter(
    (name) => own[name] && !IGNORED.has(name) && !SUPPORTED.has(name),
  );
  if (tls) return ignored;
  const more = Object.keys(socket).filter((name) => socket[name] && !SOCKET_SUPPORTED.has(name));
  return [
    ...ignored,
    ...more.filter((name) => !SOCKET_IGNORED.has(name)).map((name) => `socket.${name}`),
  ];
}

function unknownGroupSettings(group: Settings): string[] {
  return Object.keys(group).filter((name) => group[name] && !GROUP_SETTINGS.has(name));
}
