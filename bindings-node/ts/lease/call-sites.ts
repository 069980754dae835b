/** The call sites of acquires, for warnings and messages. */

import { capture, firstFrame, limitFrames } from "../platform/stack.js";
import { now } from "../runtime/delivery.js";

/**
 * The call site of an acquire. The text of its stack is only created when it is read.
 * @internal
 */
export interface CallSite {
  stack?: unknown;
  /** Time of the acquire, in ms. */
  readonly at: number;
  /** Number of acquires that were attributed to this site. */
  uses: number;
}

/** A method of this package. The caller's frame is below it. */
export type Method = (...args: never[]) => unknown;

/**
 * Time in ms within which acquires with the same options are attributed to the same call site. Only warnings show it.
 */
const SAME_SITE = 50;

/** The call sites of acquires with the same options. Capturing one costs more than sending the request. */
export class CallSites {
  readonly #last = new WeakMap<Method, CallSite>();

  /** Returns the call site below this method. Reuses the last one if it is recent. */
  capture(below: Method): CallSite {
    const at = now();
    let site = this.#last.get(below);
    if (site === undefined || at - site.at > SAME_SITE) {
      site = { at, uses: 0 };
      const limit = limitFrames(1);
      capture(site, below);
      limitFrames(limit);
      this.#last.set(below, site);
    }
    site.uses += 1;
    return site;
  }
}

/** Formats the caller's line for messages. */
export function formatCallSite(site: CallSite): string {
  const frame = firstFrame(site);
  const other = `or by another acquire with the same options within ${SAME_SITE} ms`;
  return site.uses === 1 ? frame : `${frame}, ${other}`;
}
