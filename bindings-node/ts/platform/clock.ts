/**
 * The timers and the clock of Node.js, read once. A test of the program may replace them with fakes afterwards.
 *
 * `node:perf_hooks` keeps the real clock if the global `performance` was replaced before the import. `node:timers` and
 * `process` may contain fakes by then.
 */

import { performance } from "node:perf_hooks";
import timers from "node:timers";

export const { clearInterval, setImmediate, setInterval, setTimeout } = timers;
export const { nextTick } = process;
/** Returns the time in ms. */
export const readTime = performance.now.bind(performance);
