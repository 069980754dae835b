/**
 * Reads the settings of ioredis and node-redis clients. It imports neither package, but recognizes their objects by
 * their properties.
 */

import { InvalidOption } from "./errors.js";
import { ioredisPlace } from "./ioredis.js";
import { nodeRedisPlace } from "./noderedis.js";
import type { RedlockOptions } from "./options.js";
import { type Found, rejected, type Settings, type Way, wayTo } from "./places.js";
import { isList, kindOf } from "./values.js";
import { warn } from "./warnings.js";

const CALL = "fromClient()";

/** The settings of one client and its URL. */
type Read = Found & { way: Way };

/**
 * Returns the URLs of the nodes, and the given options completed with those of the clients.
 * @internal
 */
export function takenOver(clients: unknown, given: RedlockOptions): [string[], RedlockOptions] {
  const several = isList(clients, CALL) ? [...clients] : [clients];
  if (several.length === 0) {
    throw new InvalidOption(`${CALL}: the list of clients is empty. Pass at least one client`);
  }
  const found = several.map((client) => read(client, given));
  const ways = found.map(({ way }) => way);
  const options: RedlockOptions = { ...given };
  const [serverName, ...names] = new Set(ways.map((way) => way.serverName));
  if (given.tlsServerName === undefined && serverName !== undefined)
    options.tlsServerName = serverName;
  if (given.tlsServerName === undefined && names.length > 0) {
    throw rejected(
      "the clients have different tls.servername settings",
      "Set one tlsServerName for all nodes",
    );
  }
  const [provider, ...others] = new Set(found.map((each) => each.provider));
  if (given.credentials === undefined && others.length > 0) {
    throw rejected(
      "the clients have different credentialsProviders, or only some have one",
      "Set credentials to one function for all nodes",
    );
  }
  if (given.credentials === undefined && provider !== undefined) options.credentials = provider;
  const left = [...new Set(found.flatMap((each) => each.left))].sort();
  if (left.length > 0) {
    warn(`Redlock.${CALL}: ignored settings that redlock does not support: ${left.join(", ")}`);
  }
  return [ways.map((way) => way.url), options];
}

/** Reads one client. Reading a foreign object may throw any error. */
function read(client: unknown, given: RedlockOptions): Read {
  try {
    const found =
      typeof client === "object" && client !== null ? placeOf(client, given) : undefined;
    if (found !== undefined) return { ...found, way: wayTo(found.place, given) };
  } catch (cause) {
    if (cause instanceof InvalidOption) throw cause;
    throw new InvalidOption(`${CALL}: cannot read the client (see the cause of this error)`, {
      cause,
    });
  }
  // The client's text is not shown, because it may contain a password.
  const text = "a client must be an ioredis or node-redis client or cluster";
  const action = "For other clients, use the URL of the node: new Redlock('redis://...')";
  throw new InvalidOption(`${CALL}: ${text} (got ${kindOf(client)}). ${action}`);
}

function placeOf(client: object, given: RedlockOptions): Found | undefined {
  const theirs = client as Settings;
  return ioredisPlace(theirs, given) ?? nodeRedisPlace(theirs, given);
}
