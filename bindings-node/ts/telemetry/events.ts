/** Publishes background events. Renewals and connections have channels, and `NODE_DEBUG` prints all events. */

import { channel } from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { CoreEvent } from "../native.js";

/** The message of the channel `redlock:renew`, for a background renewal of any lease in this process. */
export interface LockRenewal {
  /** The Redis key. Several keys are separated by commas. */
  key: string;
  /** The first eight digits of the lease's token. */
  token: string;
  /** Whether a quorum confirmed the renewal. If not, it is retried until the lease ends. */
  renewed: boolean;
  /** The remaining time of the lease, in ms. */
  remaining: number;
}

/** The message of the channel `redlock:connect`, for a connection to a node. */
export interface LockConnection {
  /** The node's URL, without its password. */
  node: string;
  /** Whether the node is connected. If not, the client retries and publishes the next message when it succeeds. */
  connected: boolean;
  /** Why the connection failed. */
  fault?: string;
  /** How long the node was not connected, in ms. Undefined if it was never connected and no attempt has failed. */
  outage?: number;
}

const renew = channel("redlock:renew");
const connect = channel("redlock:connect");
const debug = debuglog("redlock");
/** `NODE_DEBUG` does not change while the process runs. */
const debugEnabled = debug.enabled;

/** The lists of topics that this module may want. Equal lists are the same object. */
export const TOPICS = {
  none: [],
  renewals: ["lease"],
  connections: ["node"],
  both: ["lease", "node"],
  all: ["acquire", "lease", "node", "client"],
} as const;

/** Returns the topics with subscribers. This runs for each call. */
export function wantedTopics(): readonly string[] {
  if (debugEnabled) return TOPICS.all;
  if (renew.hasSubscribers) return connect.hasSubscribers ? TOPICS.both : TOPICS.renewals;
  return connect.hasSubscribers ? TOPICS.connections : TOPICS.none;
}

/** Publishes an event on the channel that it belongs to. */
export function publishEvent({ template, text, fields, dropped }: CoreEvent): void {
  if (debugEnabled) {
    if (dropped > 0) debug("%d events were dropped, because this thread was too slow", dropped);
    debug("%s", text);
  }
  const { key, token, remaining_ms: remaining, node, fault, outage_ms: outage } = fields;
  if (template === "renewed" || template.startsWith("renewal failed")) {
    publish(renew, { key, token, renewed: template === "renewed", remaining });
  } else if (template === "no connection") {
    publish(connect, { node, connected: false, fault });
  } else if (template === "connected") {
    publish(connect, { node, connected: true });
  } else if (template === "connected again") {
    publish(connect, { node, connected: true, outage });
  }
}

function publish(to: typeof renew, message: object): void {
  if (to.hasSubscribers) to.publish(message);
}
