/** Reads the connection settings of ioredis clients. */

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

/** Settings that do not affect a lock, such as retries and how commands are sent and values read. */
const NOTHING =
  words(`Promise autoPipeliningIgnoredCommands autoResendUnfulfilledCommands autoResubscribe
  blockingTimeout blockingTimeoutGrace clientInfoTag clusterNodeRetryStrategy clusterRetryStrategy commandQueue
  disableClientInfo disconnectTimeout dnsLookup dropBufferSupport enableAutoPipelining enableOfflineQueue
  enableReadyCheck failoverDetector himportFieldsets keepAlive lazyConnect maxLoadingRetryTime maxRedirections
  maxRetriesPerRequest monitor noDelay offlineQueue parser preferredSlaves protocol reconnectOnError redisOptions
  replyMapping resolveSrv retryDelayOnClusterDown retryDelayOnFailover retryDelayOnMoved retryDelayOnTryAgain
  retryStrategy scaleReads scripts sentinelCommandTimeout sentinelMaxConnections sentinelReconnectStrategy
  sentinelRetryStrategy shardedSubscribers showFriendlyErrorStack slotsRefreshInterval slotsRefreshTimeout
  socketTimeout stringNumbers updateSentinels`);
/** Settings that this module reads. */
const READ =
  words(`commandTimeout connectTimeout connectionName db enableTLSForSentinelMode family host keyPrefix
  name password path port role sentinelPassword sentinelTLS sentinelUsername sentinels tls username`);
/** Settings that decide which server is used, and have no counterpart. */
const REFUSED = ["Connector", "natMap", "useSRVRecords"];
const CONNECT_TIMEOUT = 10_000;

/** Returns undefined for an object that is not an ioredis client. */
export function ioredisPlace(client: Settings, given: RedlockOptions): Found | undefined {
  const { isCluster, options, startupNodes } = client;
  if (typeof isCluster !== "boolean" || typeof options !== "object" || options === null) {
    return undefined;
  }
  const own = options as Settings;
  if (!isCluster) return { place: single(own, given), left: unknown(own), provider: undefined };
  const shared = settingsOf(own.redisOptions);
  const roots = (startupNodes as unknown[]).map(root);
  const { host, port, ...first } = roots[0] ?? {};
  for (const other of roots) sameWay(first, other);
  const place = common({ ...own, ...shared, ...first }, given);
  const left = [...unknown(own), ...unknown(shared), ...unknown(first)];
  const hosts = roots.map((each) => ({ host: each.host ?? "127.0.0.1", port: each.port }));
  return { place: { ...place, hosts, db: 0, scheme: "+cluster" }, left, provider: undefined };
}

function single(own: Settings, given: RedlockOptions): Place {
  const place = common(own, given);
  const { sentinels } = own;
  if (!Array.isArray(sentinels) || sentinels.length === 0) {
    return { ...place, hosts: [own], path: own.path };
  }
  if (own.role === "slave") throw unsupported("role", "A lock needs the primary");
  const tls = own.enableTLSForSentinelMode ? own.tls : undefined;
  const { sentinelTLS } = own;
  if (Boolean(tls) !== Boolean(sentinelTLS)) {
    throw rejected(
      "only one of the sentinels and their servers uses TLS",
      "Set sentinelTLS, and tls with enableTLSForSentinelMode, or neither",
    );
  }
  if (tls) sameSettings(settingsOf(tls), settingsOf(sentinelTLS), "tls and sentinelTLS");
  return {
    ...place,
    hosts: sentinels.map((each) => ({ host: "127.0.0.1", ...settingsOf(each) })),
    service: own.name,
    sentinelUsername: own.sentinelUsername,
    sentinelPassword: own.sentinelPassword,
    tls: tls ? settingsOf(tls) : undefined,
    scheme: "+sentinel",
  };
}

function common(own: Settings, given: RedlockOptions): Place {
  for (const name of REFUSED) if (own[name]) throw unsupported(name);
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
    tls: tls ? settingsOf(tls) : undefined,
  };
}

/** Parses the address of a cluster node, which may be a port, a URL or an object. */
function root(written: unknown): Settings {
  if (typeof written === "number") return { port: written };
  if (typeof written !== "string") return settingsOf(written);
  if (/^\d+$/.test(written)) return { port: Number(written) };
  const url = urlOf(written.includes("://") ? written : `redis://${written}`);
  const found: Record<string, unknown> = { host: url.hostname.replace(/^\[|\]$/g, "") };
  if (url.port) found.port = Number(url.port);
  if (url.username) found.username = decodeURIComponent(url.username);
  if (url.password) found.password = decodeURIComponent(url.password);
  if (url.protocol === "rediss:") found.tls = {};
  return found;
}

function sameWay(first: Settings, { host, port, ...other }: Settings): void {
  sameSettings(first, other, "the startup nodes");
}

/** Throws if the settings differ, because one URL applies to all of them. */
function sameSettings(first: Settings, other: Settings, name: string): void {
  for (const key of new Set([...Object.keys(first), ...Object.keys(other)])) {
    const [one, two] = [first[key], other[key]];
    const same =
      typeof one === "object" ? JSON.stringify(one) === JSON.stringify(two) : one === two;
    if (!same) throw rejected(`the settings of ${name} differ`, "Use the same for all of them");
  }
}

function unknown(own: Settings): string[] {
  const known = (name: string) => NOTHING.has(name) || READ.has(name) || REFUSED.includes(name);
  return Object.keys(own).filter((name) => own[name] && !known(name) && name !== "readOnly");
}
