/** The settings of other clients' connections: which become a URL, which mean nothing to a lock, which are refused. */

import type { CredentialsSource } from "./credentials.js";
import { InvalidOption } from "./errors.js";
import { shown } from "./native.js";
import type { RedlockOptions } from "./options.js";

/** Settings as another client keeps them. */
export type Settings = Readonly<Record<string, unknown>>;

/** What one client says, in one spelling for all clients. */
export interface Place {
  /** One, or all where sentinels or a cluster are looked for. */
  hosts: readonly { host?: unknown; port?: unknown }[];
  /** Of a socket of this machine. */
  path?: unknown;
  /** Of a service under Sentinel. */
  service?: unknown;
  scheme: "" | "+sentinel" | "+cluster";
  username?: unknown;
  password?: unknown;
  sentinelUsername?: unknown;
  sentinelPassword?: unknown;
  db?: unknown;
  family?: unknown;
  clientName?: unknown;
  nodeTimeout?: unknown;
  connectTimeout?: unknown;
  /** By TLS; with the names that `tls.connect` has for its options. */
  tls?: Settings | undefined;
}

/** What was found in a client. */
export interface Found {
  place: Place;
  /** Settings that nobody here knows. */
  left: string[];
  /** Who says as whom to log in, where that is not written down. */
  provider: CredentialsSource | undefined;
}

/** Of what may be no object, as `tls: true`. */
export function settingsOf(value: unknown): Settings {
  return typeof value === "object" && value !== null ? (value as Settings) : {};
}

/** One client's way: a URL, and what only an option can say. */
export interface Way {
  url: string;
  serverName: string | undefined;
}

const WITHOUT = "write the node's URL, new Redlock('rediss://...'), without it";
const PATHS = { ca: "tlsCa", cert: "tlsCert", key: "tlsKey" } as const;
/** Of `tls.connect`, of no effect on whom to trust. */
const NOTHING = ["maxVersion", "ALPNProtocols", "session", "timeout", "enableTrace"];
const LOW_ENOUGH = ["TLSv1", "TLSv1.1", "TLSv1.2"];

/** The error for a setting that cannot be left out. */
export function refused(name: string, way = WITHOUT): InvalidOption {
  const text = `the client's ${shown(name)} has no counterpart in redlock: ${way}`;
  return new InvalidOption(`fromClient(): ${text}`);
}

/** The URL of a place. Options that are given win, where one says the same. */
export function wayTo(place: Place, given: RedlockOptions): Way {
  const named = given.clientName === undefined ? place.clientName : undefined;
  const parameters: Record<string, unknown> = {
    client_name: named,
    commandTimeout: given.nodeTimeout === undefined ? place.nodeTimeout : undefined,
    connectTimeout: place.connectTimeout,
    family: place.family,
    sentinel_username: place.sentinelUsername,
    sentinel_password: place.sentinelPassword,
  };
  const { tls } = place;
  if (tls !== undefined && trustsAll(tls, given)) parameters.ssl_cert_reqs = "none";
  const serverName = tls === undefined ? undefined : nameToProve(tls, given);
  const { username, password } = given.credentials === undefined ? place : {};
  if (place.path) {
    // A path has no place for these but behind the ?.
    Object.assign(parameters, { db: place.db, username, password });
    const path = `${place.path}`.split("/").map(encodeURIComponent).join("/");
    return { url: `unix://${path}${query(parameters)}`, serverName };
  }
  const scheme = `${tls === undefined ? "redis" : "rediss"}${place.scheme}`;
  const service = place.service === undefined ? "" : `/${encodeURIComponent(`${place.service}`)}`;
  const path = `${service}${place.db ? `/${Number(place.db)}` : ""}`;
  const port = place.scheme === "+sentinel" ? 26_379 : 6379;
  const hosts = place.hosts.map((each) => hostOf(each, port)).join(",");
  return {
    url: `${scheme}://${loginOf(username, password)}${hosts}${path}${query(parameters)}`,
    serverName,
  };
}

/** A user alone is refused by its URL, which says why. */
function loginOf(username: unknown, password: unknown): string {
  const user = username ? encodeURIComponent(`${username}`) : "";
  if (password) return `${user}:${encodeURIComponent(`${password}`)}@`;
  return user && `${user}@`;
}

function hostOf({ host, port }: { host?: unknown; port?: unknown }, usual: number): string {
  const name = host ? `${host}` : "localhost";
  // Where a name had one of these, its URL would lead elsewhere, and take the password along.
  if (/[/?#@,[\]\\\s]/.test(name)) {
    throw new InvalidOption(
      `fromClient(): host is ${shown(name)}: it must be a host's name or address`,
    );
  }
  const number = port ? Number(port) : usual;
  return name.includes(":") ? `[${name}]:${number}` : `${name}:${number}`;
}

function query(parameters: Record<string, unknown>): string {
  const given = Object.entries(parameters).filter(([, value]) => value);
  const written = given.map(([name, value]) => `${name}=${encodeURIComponent(`${value}`)}`);
  return written.length === 0 ? "" : `?${written.join("&")}`;
}

/** By the client's own word: an option goes its own way. */
function trustsAll(tls: Settings, given: RedlockOptions): boolean {
  return given.tlsVerify === undefined && tls.rejectUnauthorized === false;
}

/** The name that a server's certificate must carry; throws for what else says whom to trust. */
function nameToProve(tls: Settings, given: RedlockOptions): string | undefined {
  const unseen = given.tlsVerify === false || trustsAll(tls, given);
  for (const [name, value] of Object.entries(tls)) {
    if (value === undefined || value === null || NOTHING.includes(name)) continue;
    if (name === "rejectUnauthorized" || name === "servername") continue;
    if (name === "minVersion" && LOW_ENOUGH.includes(`${value}`)) continue;
    if (name === "checkServerIdentity") {
      if (unseen || given.tlsServerName !== undefined) continue;
      throw refused(name, "give tlsServerName, the name that the server's certificate carries");
    }
    if (!Object.hasOwn(PATHS, name)) throw refused(`tls.${name}`);
    const option = PATHS[name as keyof typeof PATHS];
    if (given[option] !== undefined || (name === "ca" && unseen)) continue;
    throw refused(`tls.${name}`, `give ${option}, a PEM file's path, or its bytes`);
  }
  const { servername } = tls;
  return typeof servername === "string" && servername !== "" ? servername : undefined;
}
