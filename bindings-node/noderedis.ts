/** Reads the connection settings of node-redis clients. */

import type { CredentialsSource } from "./credentials.js";
import type { RedlockOptions } from "./options.js";
import {
  type Found,
  type Place,
  rejected,
  type Settings,
  settingsOf,
  unsupported,
  urlOf,
} from "./places.js";

const words = (text: string) => new Set(text.split(/\s+/));

/**
 * Settings that do not affect a lock, such as how commands are sent, values are read, and the number of connections.
 */
const NOTHING =
  words(`RESP clientInfoTag clientSideCache commandOptions commands commandsQueueMaxLength
  disableClientInfo disableOfflineQueue emitInvalidate functions isolationPoolOptions legacyMode maintEndpointType
  maintNotifications maintRelaxedCommandTimeout maintRelaxedSocketTimeout modules pingInterval scripts unstableResp3`);
/** Settings of a socket that do not affect a lock, such as keepalive and reconnects. */
const SOCKET_NOTHING = words(
  `keepAlive keepAliveInitialDelay noDelay reconnectStrategy socketTimeout`,
);
const READ = words(`credentialsProvider database name password readonly socket url username`);
const SOCKET_READ = words("connectTimeout family host path port tls");
/** Settings of a socket that decide which server is used, and have no counterpart. */
const SOCKET_REFUSED = ["lookup", "localAddress", "localPort"];
/** Settings of a cluster or a Sentinel service that do not affect a lock. */
const GROUP =
  words(`RESP clientSideCache commandOptions commands defaults functions masterPoolSize maxCommandRediscovers
  maxCommandRedirections minimizeConnections modules name nodeAddressMap nodeClientOptions passthroughClientErrorEvents
  replicaPoolSize reserveClient rootNodes scanInterval scripts sentinelClientOptions sentinelRootNodes useReplicas`);
const CONNECT_TIMEOUT = 5_000;

/** Returns undefined for an object that is not a node-redis client. */
export function nodeRedisPlace(client: Settings, given: RedlockOptions): Found | undefined {
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

function single(written: Settings, given: RedlockOptions): Found {
  const own = withUrl(written);
  const socket = settingsOf(own.socket);
  if (own.readonly) throw unsupported("readonly", "A lock needs the primary");
  for (const name of SOCKET_REFUSED) if (socket[name]) throw unsupported(`socket.${name}`);
  const { tls, connectTimeout } = socket;
  const place: Place = {
    hosts: [socket],
    scheme: "",
    path: socket.path,
    username: own.username,
    password: own.password,
    db: own.database,
    family: socket.family,
    clientName: own.name,
    nodeTimeout: settingsOf(own.commandOptions).timeout,
    connectTimeout: connectTimeout === CONNECT_TIMEOUT ? undefined : connectTimeout,
    tls: tls ? trust(socket) : undefined,
  };
  return { place, left: unknown(own, socket, Boolean(tls)), provider: providerOf(own, given) };
}

function cluster(group: Settings, written: unknown[], given: RedlockOptions): Found {
  if (group.nodeAddressMap) throw unsupported("nodeAddressMap");
  const defaults = settingsOf(group.defaults);
  const shared = settingsOf(defaults.socket);
  const nodes = written.map((each) => {
    const own = withUrl(settingsOf(each));
    return single(
      { ...defaults, ...own, url: undefined, socket: { ...shared, ...settingsOf(own.socket) } },
      given,
    );
  });
  const [first] = nodes;
  if (first === undefined) throw rejected("the cluster has no rootNodes", "Add at least one");
  for (const other of nodes) sameWay(first.place, other.place);
  const hosts = nodes.flatMap(({ place }) => place.hosts);
  const left = [...unnamed(group), ...nodes.flatMap((node) => node.left)];
  return { ...first, place: { ...first.place, hosts, db: 0, scheme: "+cluster" }, left };
}

function service(group: Settings, sentinels: unknown[], given: RedlockOptions): Found {
  if (group.nodeAddressMap) throw unsupported("nodeAddressMap");
  const servers = single(settingsOf(group.nodeClientOptions), given);
  const own = single(settingsOf(group.sentinelClientOptions), given);
  if (JSON.stringify(servers.place.tls) !== JSON.stringify(own.place.tls)) {
    throw rejected(
      "the TLS settings of the sentinels and of their servers differ",
      "Use the same for both",
    );
  }
  const place: Place = {
    ...servers.place,
    hosts: sentinels.map(settingsOf),
    path: undefined,
    service: group.name,
    sentinelUsername: own.place.username,
    sentinelPassword: own.place.password,
    scheme: "+sentinel",
  };
  return { ...servers, place, left: [...unnamed(group), ...servers.left, ...own.left] };
}

/** Applies a URL that node-redis has not parsed yet. As in node-redis, it overrides the other settings. */
function withUrl(own: Settings): Settings {
  if (typeof own.url !== "string") return own;
  const url = urlOf(own.url);
  const socket: Record<string, unknown> = { ...settingsOf(own.socket) };
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
function trust(socket: Settings): Settings {
  const other = (name: string) => SOCKET_READ.has(name) || SOCKET_NOTHING.has(name);
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

function sameWay(first: Place, other: Place): void {
  const way = ({ hosts, ...rest }: Place) => JSON.stringify(rest);
  if (way(first) === way(other)) return;
  throw rejected("the settings of the rootNodes differ", "Set them once, in defaults");
}

function unknown(own: Settings, socket: Settings, tls: boolean): string[] {
  const left = Object.keys(own).filter(
    (name) => own[name] && !NOTHING.has(name) && !READ.has(name),
  );
  if (tls) return left;
  const more = Object.keys(socket).filter((name) => socket[name] && !SOCKET_READ.has(name));
  return [
    ...left,
    ...more.filter((name) => !SOCKET_NOTHING.has(name)).map((name) => `socket.${name}`),
  ];
}

function unnamed(group: Settings): string[] {
  return Object.keys(group).filter((name) => group[name] && !GROUP.has(name));
}
