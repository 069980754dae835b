/**
 * Converts the connection settings of other clients to a URL and options. Ignores settings that do not affect a lock,
 * and rejects those that must not be ignored.
 */

import { isIPv6 } from "node:net";
import { isUint8Array } from "node:util/types";
import { InvalidOption } from "../errors/errors.js";
import { shown } from "../native.js";
import type { CredentialsSource } from "../options/credentials.js";
import type { RedlockOptions } from "../options/options.js";
import { describeType, LONE_SURROGATE } from "../options/values.js";

/** Settings as another client stores them. */
export type Settings = Readonly<Record<string, unknown>>;

/** The settings of one client, with the same names for all packages. */
export interface ConnectionSettings {
  /** One server, or all the sentinels or servers of a cluster. */
  hosts: readonly { host?: unknown; port?: unknown }[];
  /** The path of a local socket. */
  path?: unknown;
  /** The name of a service in Sentinel. */
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
  /** The TLS settings, with the option names of `tls.connect`. Undefined without TLS. */
  tls?: Settings | undefined;
  /** Whether the sentinels use TLS, if not as the servers do. */
  sentinelTls?: boolean | undefined;
}

/** The settings that were read from one client. */
export interface ClientSettings {
  settings: ConnectionSettings;
  /** Names of unknown settings. */
  ignored: string[];
  /** The function that returns credentials, if the client has one. */
  provider: CredentialsSource | undefined;
  /** The client's own map of announced addresses, as it has it. */
  addressMap?: unknown;
}

/** Returns no settings if the value is not an object, for example `tls: true`. */
export function toSettings(value: unknown): Settings {
  return typeof value === "object" && value !== null ? (value as Settings) : {};
}

/** The URL of one client, and the setting that only an option can express. */
export interface NodeUrl {
  url: string;
  serverName: string | undefined;
}

const USE_URL = "Use the URL of the node instead: new Redlock('rediss://...')";
const PEM_OPTIONS = { ca: "tlsCa", cert: "tlsCert", key: "tlsKey" } as const;
/** Options of `tls.connect` that do not affect which server is trusted. */
const IGNORED_TLS_OPTIONS = ["maxVersion", "ALPNProtocols", "session", "timeout", "enableTrace"];
const ACCEPTED_MIN_VERSIONS = ["TLSv1", "TLSv1.1", "TLSv1.2"];

/** The error for a setting that must not be ignored. */
export function unsupported(name: string, action = USE_URL): InvalidOption {
  return rejected(`redlock does not support the client's ${shown(name)}`, action);
}

/** The error for settings that redlock cannot take over. */
export function rejected(problem: string, action: string): InvalidOption {
  return new InvalidOption(`fromClient(): ${problem}. ${action}`);
}

/** Builds the URL. The given options take precedence over the client's settings. */
export function buildNode(settings: ConnectionSettings, given: RedlockOptions): NodeUrl {
  const named = given.clientName === undefined ? settings.clientName : undefined;
  const parameters: Record<string, string | number | undefined> = {
    client_name: textOf(named, "name"),
    commandTimeout:
      given.nodeTimeout === undefined
        ? timeText(settings.nodeTimeout, "commandTimeout")
        : undefined,
    connectTimeout:
      given.connectTimeout === undefined
        ? timeText(settings.connectTimeout, "connectTimeout")
        : undefined,
    family: numberText(settings.family, "family", "4, 6 or 0"),
    sentinel_username: textOf(settings.sentinelUsername, "sentinels' username"),
    sentinel_password: textOf(settings.sentinelPassword, "sentinels' password"),
  };
  const { tls, sentinelTls } = settings;
  if (sentinelTls !== undefined) parameters.sentinel_tls = `${sentinelTls}`;
  if (tls !== undefined && trustsAll(tls, given)) parameters.ssl_cert_reqs = "none";
  const serverName = tls === undefined ? undefined : requiredServerName(tls, given);
  const login: Partial<ConnectionSettings> = given.credentials === undefined ? settings : {};
  const username = textOf(login.username, "username");
  const password = textOf(login.password, "password");
  const db = settings.db ? numberOf(settings.db, "db") : undefined;
  const socket = socketOf(settings.path);
  if (socket !== undefined) {
    // The URL of a socket can only have these as parameters.
    Object.assign(parameters, { db, username, password });
    const path = socket.split("/").map(encodeURIComponent).join("/");
    return { url: `unix://${path}${query(parameters)}`, serverName };
  }
  const secured = sentinelTls === undefined ? tls !== undefined : !sentinelTls;
  const scheme = `${secured ? "rediss" : "redis"}${settings.scheme}`;
  const service = textOf(settings.service, "service") ?? "";
  const path = [settings.service === undefined ? undefined : encodeURIComponent(service), db]
    .filter((part) => part !== undefined)
    .map((part) => `/${part}`)
    .join("");
  const port = settings.scheme === "+sentinel" ? 26_379 : 6379;
  const hosts = settings.hosts.map((each) => hostOf(each, port)).join(",");
  return {
    url: `${scheme}://${loginOf(username, password)}${hosts}${path}${query(parameters)}`,
    serverName,
  };
}

/** A user without a password is included too. Core rejects such a URL and explains why. */
function loginOf(username: string | undefined, password: string | undefined): string {
  const user = username === undefined ? "" : encodeURIComponent(username);
  if (password !== undefined) return `${user}:${encodeURIComponent(password)}@`;
  return user && `${user}@`;
}

function hostOf({ host, port }: { host?: unknown; port?: unknown }, defaultPort: number): string {
  const name = textOf(host, "host") ?? "localhost";
  // A name with one of these characters would change the host of the URL, and send the password there.
  if (/[/?#@,[\]\\\s]/.test(name) || (name.includes(":") && !isIPv6(name))) {
    // The name is not shown, because it may be a URL with user and password, which must not appear in a log.
    throw rejected(
      "a client's host must be a host name or an IP address (value not shown)",
      "Use separate settings for user, password, port and db",
    );
  }
  const number = port ? numberOf(port, "port") : defaultPort;
  return name.includes(":") ? `[${name}]:${number}` : `${name}:${number}`;
}

/**
 * Checks the path of a socket. If ioredis does not know the scheme of a URL, it stores everything after the scheme as
 * the path, including user, password and host.
 */
function socketOf(path: unknown): string | undefined {
  const text = textOf(path, "path");
  if (text === undefined || /^\/(?!\/)[^@]*$/.test(text)) return text;
  throw rejected(
    "a client's path must be the absolute path of a socket, starting with one / and without @ (value not shown)",
    "For a server use redis:// or rediss://, and for another path new Redlock('unix:///...')",
  );
}

/**
 * Returns a value that the other package sends as text. It may be a string, bytes or a number. Undefined if it is
 * empty.
 */
function textOf(value: unknown, name: string): string | undefined {
  if (!value) return undefined;
  const text =
    typeof value === "number" ? `${value}` : isUint8Array(value) ? decoded(value) : value;
  if (typeof text === "string" && !LONE_SURROGATE.test(text)) return text || undefined;
  const encoded = isUint8Array(value) || typeof value === "string";
  const got = encoded ? "text that is not UTF-8" : describeType(value);
  throw new InvalidOption(`fromClient(): a client's ${name} must be UTF-8 text (got ${got})`);
}

/** Returns undefined for bytes that are not UTF-8. */
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
  // The value is not shown, for the same reason as a host.
  throw mistyped(name, "a whole number", value);
}

const timeText = (value: unknown, name: string) =>
  numberText(value, name, "a time in milliseconds");

/**
 * Returns the number as text. The parameter of the URL checks its range. A value that is not a number is neither shown
 * nor converted to text.
 */
function numberText(value: unknown, name: string, rule: string): string | undefined {
  if (!value) return undefined;
  const plain = typeof value === "number" || typeof value === "bigint";
  if (plain || (typeof value === "string" && Number.isFinite(Number(value)))) return `${value}`;
  throw mistyped(name, rule, value);
}

function mistyped(name: string, rule: string, value: unknown): InvalidOption {
  const got = `got ${describeType(value)}, value not shown`;
  return new InvalidOption(`fromClient(): a client's ${name} must be ${rule} (${got})`);
}

/** Parses a URL as other packages do. An invalid one is not shown, although the platform's error would contain it. */
export function parseUrl(text: string): URL {
  if (URL.canParse(text)) return new URL(text);
  throw new InvalidOption("fromClient(): the client has an invalid URL (value not shown)");
}

function query(parameters: Record<string, string | number | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value);
  const written = given.map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`);
  return written.length === 0 ? "" : `?${written.join("&")}`;
}

/** Whether the client accepts any certificate. The `tlsVerify` option takes precedence and is handled separately. */
function trustsAll(tls: Settings, given: RedlockOptions): boolean {
  return given.tlsVerify === undefined && tls.rejectUnauthorized === false;
}

/**
 * Returns the name that the server's certificate must contain. Throws for other settings that decide which server is
 * trusted.
 */
function requiredServerName(tls: Settings, given: RedlockOptions): string | undefined {
  const unverified = given.tlsVerify === false || trustsAll(tls, given);
  for (const [name, value] of Object.entries(tls)) {
    if (value === undefined || value === null || IGNORED_TLS_OPTIONS.includes(name)) continue;
    if (name === "rejectUnauthorized" || name === "servername") continue;
    if (name === "minVersion" && ACCEPTED_MIN_VERSIONS.some((low) => low === value)) continue;
    if (name === "checkServerIdentity") {
      if (unverified || given.tlsServerName !== undefined) continue;
      throw unsupported(name, "Set tlsServerName to the name in the server's certificate");
    }
    if (!Object.hasOwn(PEM_OPTIONS, name)) throw unsupported(`tls.${name}`);
    const option = PEM_OPTIONS[name as keyof typeof PEM_OPTIONS];
    if (given[option] !== undefined || (name === "ca" && unverified)) continue;
    throw unsupported(`tls.${name}`, `Set ${option} to the path of a PEM file, or to its bytes`);
  }
  const { servername } = tls;
  return typeof servername === "string" && servername !== "" ? servername : undefined;
}
