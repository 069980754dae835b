/** What core does by itself, for whoever listens: renewals and connections on channels, each step by `NODE_DEBUG`. */

import { channel } from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { Step } from "./native.js";

/** What the channel `redlock:renew` tells of a renewal in the background, of any lease of the process. */
export interface LockRenewal {
  /** The Redis key; of several names all keys, with commas between. */
  key: string;
  /** The first eight digits of the lease's token. */
  token: string;
  /** Whether a quorum confirmed it. If not, it is tried again until the lease ends. */
  renewed: boolean;
  /** What is left of the lease, in ms. */
  remaining: number;
}

/** What the channel `redlock:connect` tells of a connection to a node. */
export interface LockConnection {
  /** The node's URL, without a password. */
  node: string;
  /** Whether there is one; if not, it is tried again, and nothing is told until there is. */
  connected: boolean;
  /** Why there is none. */
  fault?: string;
  /** How long there was none, in ms, where there had been one, or an attempt, before. */
  outage?: number;
}

const renew = channel("redlock:renew");
const connect = channel("redlock:connect");
const debug = debuglog("redlock");
/** Never changes. */
const everything = debug.enabled;

/** Which topics somebody wants: the numbers that the native part takes. */
export function wantedSteps(): number {
  if (everything) return 15;
  return (renew.hasSubscribers ? 2 : 0) + (connect.hasSubscribers ? 4 : 0);
}

/** Tells whoever listens. */
export function tellOfStep({ template, text, fields, dropped }: Step): void {
  if (everything) {
    if (dropped > 0) debug("%d steps were not printed: this thread was too slow", dropped);
    debug("%s", text);
  }
  const { key, token, remaining_ms: remaining, node, fault, outage_ms: outage } = fields;
  if (template === "renewed" || template.startsWith("not renewed")) {
    publish(renew, { key, token, renewed: template === "renewed", remaining });
  } else if (template === "no connection") {
    publish(connect, { node, connected: false, fault });
  } else if (template === "connected") {
    publish(connect, { node, connected: true });
  } else if (template === "connected again") {
    publish(connect, { node, connected: true, outage });
  }
}

function publish(to: typeof renew, told: object): void {
  if (to.hasSubscribers) to.publish(told);
}
