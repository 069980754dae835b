/**
 * Reads the settings of ioredis and node-redis clients. It imports neither package, but recognizes their objects by
 * their properties.
 */

import { InvalidOption } from "../errors/errors.js";
import { foreignAddressMap } from "../options/address-map.js";
import type { RedlockOptions } from "../options/options.js";
import { describeType, isList } from "../options/values.js";
import { warnOwn } from "../telemetry/warnings.js";
import {
  buildNode,
  type ClientSettings,
  type NodeUrl,
  rejected,
  type Settings,
} from "./foreign-settings.js";
import { readIoredis } from "./ioredis.js";
import { readNodeRedis } from "./noderedis.js";

const CALL = "fromClient()";

/** The settings of one client and its URL. */
type ReadClient = ClientSettings & { node: NodeUrl };

/**
 * Returns the URLs of the nodes, and the given options completed with those of the clients.
 * @internal
 */
export function readClients(clients: unknown, given: RedlockOptions): [string[], RedlockOptions] {
  const several = isList(clients, CALL) ? [...clients] : [clients];
  if (several.length === 0) {
    throw new InvalidOption(`${CALL}: the list of clients is empty. Pass at least one client`);
  }
  const found = several.map((client) => readClient(client, given));
  const nodes = found.map(({ node }) => node);
  const options: RedlockOptions = { ...given };
  const [serverName, ...names] = new Set(nodes.map((node) => node.serverName));
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
  const maps = found.map((each) => each.addressMap).filter((map) => map !== undefined);
  const [map, ...otherMaps] = new Set(maps);
  if (given.addressMap === undefined && otherMaps.length > 0) {
    throw rejected(
      "the clients have different natMap or nodeAddressMap settings",
      "Set addressMap once for all nodes",
    );
  }
  if (given.addressMap === undefined && map !== undefined) {
    options.addressMap = foreignAddressMap(map);
  }
  const ignored = [...new Set(found.flatMap((each) => each.ignored))].sort();
  if (ignored.length > 0) {
    const template =
      "Redlock.fromClient(): ignored settings that redlock does not support: {settings}";
    warnOwn("client", template, { settings: ignored.join(", ") });
  }
  return [nodes.map((node) => node.url), options];
}

/** Reads one client. Reading a foreign object may throw any error. */
function readClient(client: unknown, given: RedlockOptions): ReadClient {
  try {
    const found =
      typeof client === "object" && client !== null ? readSettings(client, given) : undefined;
    if (found !== undefined) return { ...found, node: buildNode(found.settings, given) };
  } catch (cause) {
    if (cause instanceof InvalidOption) throw cause;
    throw new InvalidOption(`${CALL}: cannot read the client (see the cause of this error)`, {
      cause,
    });
  }
  // The client's text is not shown, because it may contain a password.
  const text = "a client must be an ioredis or node-redis client or cluster";
  const action = "For other clients, use the URL of the node: new Redlock('redis://...')";
  throw new InvalidOption(`${CALL}: ${text} (got ${describeType(client)}). ${action}`);
}

function readSettings(client: object, given: RedlockOptions): ClientSettings | undefined {
  const settings = client as Settings;
  return readIoredis(settings, given) ?? readNodeRedis(settings, given);
}
