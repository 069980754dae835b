/** The connection of this copy of the package to the native part. */

import { Runtime } from "../native.js";
import { outsideAsyncContext } from "../platform/async-context.js";
import { calls, outcomes } from "./rows.js";

/** Receives the number of written outcomes, and the side values if there are any. */
export type OutcomesListener = (rows: number, sideValues?: unknown[]) => void;

let listener: OutcomesListener = () => undefined;

/** Sets the function that receives the outcomes. */
export function onOutcomes(receive: OutcomesListener): void {
  listener = receive;
}

/** Calls and outcomes pass through these arrays, whose memory the native part reads and writes. */
const arrays = { calls, outcomes };
const settleCallback = Object.assign(
  (rows: number, sideValues?: unknown[]) => listener(rows, sideValues),
  arrays,
);

/**
 * The connection to the native part. Outside this folder, use `native()`.
 *
 * Only JavaScript holds it. While no call is pending it holds no JavaScript object strongly, so an unused copy of the
 * package can be collected. The arrays are attached to the objects that call the native part or that it calls, which
 * keeps them alive during a call.
 */
export const runtime = Object.assign(
  outsideAsyncContext(() => new Runtime(calls, outcomes, settleCallback)),
  arrays,
  { settleCallback },
);
