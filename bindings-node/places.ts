/** The settings of other clients' connections: which become a URL, which mean nothing to a lock, which are refused. */

import { isIPv6 } from "node:net";
import { isUint8Array } from "node:util/types";
import type { CredentialsSource } from "./credentials.js";
import { InvalidOption } from "./errors.js";
import { shown } from "./native.js";
import type { RedlockOptions } from "./options.js";
import { kindOf, LONE_SURROGATE } from "./values.js";

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
  const parameters: Record<string, string | number | undefined> = {
    client_name: textOf(named, "name"),
    commandTimeout:
      given.nodeTimeout === undefined ? timeOf(place.nodeTimeout, "commandTimeout") : undefined,
    connectTimeout:
      given.connectTimeout === undefined
        ? timeOf(place.connectTimeout, "connectTimeout")
        : undefined,
    family: figureOf(place.family, "family", "4, 6 or 0"),
    sentinel_username: textOf(place.sentinelUsername, "sentinels' username"),
    sentinel_password: textOf(place.sentinelPassword, "sentinels' password"),
  };
  const { tls } = place;
  if (tls !== undefined && trustsAll(tls, given)) parameters.ssl_cert_reqs = "none";
  const serverName = tls === undefined ? undefined : nameToProve(tls, given);
  const login: Partial<Place> = given.credentials === undefined ? place : {};
  const username = textOf(login.username, "username");
  const password = textOf(login.password, "password");
  const db = place.db ? numberOf(place.db, "db") : undefined;
  const socket = socketOf(place.path);
  if (socket !== undefined) {
    // A path has no place for these but behind the ?.
    Object.assign(parameters, { db, username, password });
    const path = socket.split("/").map(encodeURIComponent).join("/");
    return { url: `unix://${path}${query(parameters)}`, serverName };
  }
  const scheme = `${tls === undefined ? "redis" : "rediss"}${place.scheme}`;
  const service = textOf(place.service, "service") ?? "";
  const path = [place.service === undefined ? undefined : encodeURIComponent(service), db]
    .filter((part) => part !== undefined)
    .map((part) => `/${part}`)
    .join("");
  const port = place.scheme === "+sentinel" ? 26_379 : 6379;
  const hosts = place.hosts.map((each) => hostOf(each, port)).join(",");
  return {
    url: `${scheme}://${loginOf(username, password)}${hosts}${path}${query(parameters)}`,
    serverName,
  };
}

/** A user alone is refused by its URL, which says why. */
function loginOf(username: string | undefined, password: string | undefined): string {
  const user = username === undefined ? "" : encodeURIComponent(username);
  if (password !== undefined) return `${user}:${encodeURIComponent(password)}@`;
  return user && `${user}@`;
}

function hostOf({ host, port }: { host?: unknown; port?: unknown }, usual: number): string {
  const name = textOf(host, "host") ?? "localhost";
  // Where a name had one of these, its URL would lead elsewhere, and take the password along.
  if (/[/?#@,[\]\\\s]/.test(name) || (name.includes(":") && !isIPv6(name))) {
    // Not shown: whoever wrote a URL's user and password there must not read them in a log.
    const way = "user, password, port and db have settings of their own";
    throw new InvalidOption(
      `fromClient(): a client's host, a string that is not shown, is no host's name or address: ${way}`,
    );
  }
  const number = port ? numberOf(port, "port") : usual;
  return name.includes(":") ? `[${name}]:${number}` : `${name}:${number}`;
}

/** Of a URL whose scheme it does not know, ioredis takes all that follows for a path: user, password and host. */
function socketOf(path: unknown): string | undefined {
  const text = textOf(path, "path");
  if (text === undefined || /^\/(?!\/)[^@]*$/.test(text)) return text;
  const rule = "must be an absolute path of a socket, with one / at its start and no @";
  const way =
    "for a server write redis:// or rediss://, for another path new Redlock('unix:///...')";
  throw new InvalidOption(`fromClient(): a client's path, which is not shown, ${rule}: ${way}`);
}

/** What their packages send as a text: given as one, as its bytes, or as a number. Nothing if it is empty. */
function textOf(value: unknown, name: string): string | undefined {
  if (!value) return undefined;
  const text =
    typeof value === "number" ? `${value}` : isUint8Array(value) ? decoded(value) : value;
  if (typeof text === "string" && !LONE_SURROGATE.test(text)) return text || undefined;
  const is = isUint8Array(value) || typeof value === "string" ? "no UTF-8" : kindOf(value);
  throw new InvalidOption(`fromClient(): a client's ${name} is ${is}: it must be text in UTF-8`);
}

/** Nothing, if they are no UTF-8. */
function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function numberOf(value: unknown, name: string): number {
  const number = typeof value === "string" || typeof value === "number" ? Number(value) : NaN;
  if (Number.isInteger(number)) return number;
  // Not shown, as a host's name is not.
  throw new InvalidOption(`fromClient(): a client's ${name}, ${kindOf(value)}, is no whole number`);
}

const timeOf = (value: unknown, name: string) => figureOf(value, name, "a time in milliseconds");

/** As it is written: which are allowed its parameter says. What is no figure is not shown, nor asked for its text. */
function figureOf(value: unknown, name: string, rule: string): string | undefined {
  if (!value) return undefined;
  const plain = typeof value === "number" || typeof value === "bigint";
  if (plain || (typeof value === "string" && Number.isFinite(Number(value)))) return `${value}`;
  throw new InvalidOption(
    `fromClient(): a client's ${name}, ${kindOf(value)}, which is not shown, must be ${rule}`,
  );
}

/** A URL as other packages read it. One that cannot be read is not shown: the platform's own error shows it. */
export function urlOf(text: string): URL {
  if (URL.canParse(text)) return new URL(text);
  throw new InvalidOption(
    "fromClient(): a server's URL in the client, which is not shown, is none",
  );
}

function query(parameters: Record<string, string | number | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value);
  const written = given.map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`);
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
    if (name === "minVersion" && LOW_ENOUGH.some((low) => low === value)) continue;
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
