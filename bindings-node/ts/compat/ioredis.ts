/** Reads the connection settings of ioredis clients. */

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

/** Settings that do not affect a lock, such as retries and how commands are sent and values read. */
const IGNORED =
  nameSet(`Promise autoPipeliningIgnoredCommands autoResendUnfulfilledCommands autoResubscribe
  blockingTimeout blockingTimeoutGrace clientInfoTag clusterNodeRetryStrategy clusterRetryStrategy commandQueue
  disableClientInfo disconnectTimeout dnsLookup dropBufferSupport enableAutoPipelining enableOfflineQueue
  enableReadyCheck failoverDetector himportFieldsets keepAlive lazyConnect maxLoadingRetryTime maxRedirections
  maxRetriesPerRequest monitor noDelay offlineQueue parser preferredSlaves protocol reconnectOnError redisOptions
  replyMapping resolveSrv retryDelayOnClusterDown retryDelayOnFailover retryDelayOnMoved retryDelayOnTryAgain
  retryStrategy scaleReads scripts sentinelCommandTimeout sentinelMaxConnections sentinelReconnectStrategy
  sentinelRetryStrategy shardedSubscribers showFriendlyErrorStack slotsRefreshInterval slotsRefreshTimeout
  socketTimeout stringNumbers updateSentinels`);
/** Settings that this module reads. */
const SUPPORTED =
  nameSet(`commandTimeout connectTimeout connectionName db enableTLSForSentinelMode family host keyPrefix
  name natMap password path port role sentinelPassword sentinelTLS sentinelUsername sentinels tls username`);
/** Settings that decide which server is used, and have no counterpart. */
const REJECTED = ["Connector", "useSRVRecords"];
const CONNECT_TIMEOUT = 10_000;

/** Returns undefined for an object that is not an ioredis client. */
export function readIoredis(client: Settings, given: RedlockOptions): ClientSettings | undefined {
  const { isCluster, options, startupNodes } = client;
  if (typeof isCluster !== "boolean" || typeof options !== "object" || options === null) {
    return undefined;
  }
  const own = options as Settings;
  if (!isCluster)
    return {
      settings: single(own, given),
      ignored: unknownSettings(own),
      provider: undefined,
      addressMap: own.sentinels ? (own.natMap ?? undefined) : undefined,
    };
  const shared = toSettings(own.redisOptions);
  const roots = (startupNodes as unknown[]).map(startupNode);
  const { host, port, ...first } = roots[0] ?? {};
  for (const other of roots) assertSameSettings(first, other);
  const settings = common({ ...own, ...shared, ...first }, given);
  const ignored = [...unknownSettings(own), ...unknownSettings(shared), ...unknownSettings(first)];
  const hosts = roots.map((each) => ({ host: each.host ?? "127.0.0.1", port: each.port }));
  return {
    settings: { ...settings, hosts, db: 0, scheme: "+cluster" },
    ignored,
    provider: undefined,
    addressMap: own.natMap ?? undefined,
  };
}

function single(own: Settings, given: RedlockOptions): ConnectionSettings {
  const settings = common(own, given);
  const { sentinels } = own;
  if (!Array.isArray(sentinels) || sentinels.length === 0) {
    return { ...settings, hosts: [own], path: own.path };
  }
  if (own.role === "slave") throw unsupported("role", "A lock needs the primary");
  const tls = own.enableTLSForSentinelMode ? own.tls : undefined;
  const { sentinelTLS } = own;
  if (tls && sentinelTLS) {
    assertSame(toSettings(tls), toSettings(sentinelTLS), "tls and sentinelTLS");
  }
  const secured = tls || sentinelTLS;
  return {
    ...settings,
    hosts: sentinels.map((each) => ({ host: "127.0.0.1", ...toSettings(each) })),
    service: own.name,
    sentinelUsername: own.sentinelUsername,
    sentinelPassword: own.sentinelPassword,
    tls: secured ? toSettings(secured) : undefined,
    sentinelTls: Boolean(tls) === Boolean(sentinelTLS) ? undefined : Boolean(sentinelTLS),
    scheme: "+sentinel",
  };
}

function common(own: Settings, given: RedlockOptions): ConnectionSettings {
  for (const name of REJECTED) if (own[name]) throw unsupported(name);
  if (own.readOnly) throw unsupported("readOnly", "A lock needs the primary");
  if (own.keyPrefix && given.keyPrefix === undefined) {
    throw unsupported("keyPrefix", "Set keyPrefix to the full prefix of the lock keys");
  }
  const { connectTimeout, tls } = own;
  return {
    hosts: [],
    scheme: "",
    username: own.username,
    password: own.password,
    db: own.db,
    family: own.family,
    clientName: own.connectionName,
    nodeTimeout: own.commandTimeout,
    connectTimeout: connectTimeout === CONNECT_TIMEOUT ? undefined : connectTimeout,
    tls: tls ? toSettings(tls) : undefined,
  };
}

/** Parses the address of a cluster node, which may be a port, a URL or an object. */
function startupNode(written: unknown): Settings {
  if (typeof written === "number") return { port: written };
  if (typeof written !== "string") return toSettings(written);
  if (/^\d+$/.test(written)) return { port: Number(written) };
  const url = parseUrl(written.includes("://") ? written : `redis://${written}`);
  const found: Record<string, unknown> = { host: url.hostname.replace(/^\[|\]$/g, "") };
  if (url.port) found.port = Number(url.port);
  if (url.username) found.username = decodeURIComponent(url.username);
  if (url.password) found.password = decodeURIComponent(url.password);
  if (url.protocol === "rediss:") found.tls = {};
  return found;
}

function assertSameSettings(first: Settings, { host, port, ...other }: Settings): void {
  assertSame(first, other, "the startup nodes");
}

/** Throws if the settings differ, because one URL applies to all of them. */
function assertSame(first: Settings, other: Settings, name: string): void {
  for (const key of new Set([...Object.keys(first), ...Object.keys(other)])) {
    const [one, two] = [first[key], other[key]];
    const same =
      typeof one === "object" ? JSON.stringify(one) === JSON.stringify(two) : one === two;
    if (!same) throw rejected(`the settings of ${name} differ`, "Use the same for all of them");
  }
}

function unknownSettings(own: Settings): string[] {
  const known = (name: string) =>
    IGNORED.has(name) || SUPPORTED.has(name) || REJECTED.includes(name);
  return Object.keys(own).filter((name) => own[name] && !known(name) && name !== "readOnly");
}
