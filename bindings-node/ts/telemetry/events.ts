/**
 * Publishes background events. All are logged, and those of renewals, connections and the ends of leases have channels.
 */

import { channel } from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { LossReason } from "../errors/errors.js";
import type { CoreEvent } from "../native.js";
import { eventBits, logCoreEvent, loggedEvents } from "./log.js";

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

/** The message of the channel `redlock:end`, for the end of any lease in this process. */
export interface LockEnd {
  /** The Redis key. Several keys are separated by commas. */
  key: string;
  /** The first eight digits of the lease's token. */
  token: string;
  /** How the lease ended. */
  end: "released" | "detached" | "lost";
  /** Why the lease was lost. Undefined if it was not lost. */
  reason?: LossReason;
  /** How long the lease was held, in ms. */
  held: number;
  /** Whether the lease is from `attach`. */
  attached: boolean;
}

const renew = channel("redlock:renew");
const end = channel("redlock:end");
const connect = channel("redlock:connect");
const debug = debuglog("redlock");
/** `NODE_DEBUG` does not change while the process runs. */
const debugEnabled = debug.enabled;

/** What the channels and `NODE_DEBUG` need. */
const LEASES = eventBits("debug", ["lease"]);
const NODES = eventBits("debug", ["node"]);
const ALL = eventBits("debug");

/** Returns the bits of the events that have subscribers. This runs for each call. */
export function wantedEvents(): number {
  if (debugEnabled) return ALL;
  const leases = renew.hasSubscribers || end.hasSubscribers ? LEASES : 0;
  return loggedEvents() | leases | (connect.hasSubscribers ? NODES : 0);
}

/** Passes an event to the log and to the channel that it belongs to. */
export function publishEvent(event: CoreEvent): void {
  logCoreEvent(event);
  const { template, text, fields, dropped } = event;
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
  } else if (template === "released" || template === "detached" || template === "lease lost") {
    const { reason, held_ms: held, attached } = fields;
    const how = template === "lease lost" ? "lost" : template;
    publish(end, { key, token, end: how, reason, held, attached: attached === "true" });
  }
}

function publish(to: typeof renew, message: object): void {
  if (to.hasSubscribers) to.publish(message);
}
