/** Calls the listeners of the program for log events and warnings. Their errors must not end the process. */

import { inspect, types } from "node:util";
import { readTime } from "../platform/clock.js";
import { emitProcessWarning } from "./process-warning.js";

/** Minimum time between two warnings about a listener, in ms. */
const FAILURE_PAUSE = 1_000;

/** A listener that was passed to the function `source`, and when it was last reported to have thrown. */
export class ProgramListener<Given> {
  readonly #listener: (given: Given) => void;
  readonly #source: string;
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(listener: (given: Given) => void, source: string) {
    this.#listener = listener;
    this.#source = source;
  }

  /** Calls the listener. If it throws, the error is reported by a process warning. */
  call(given: Given): void {
    const failed = (thrown: unknown) => this.#warn(thrown);
    try {
      // Not as a method of this object.
      const listener = this.#listener;
      const returned: unknown = listener(given);
      // An async function is a listener too. Its rejection would end the process.
      if (typeof returned === "object" && returned !== null) {
        // Also a promise of another realm, such as a context of node:vm.
        Promise.resolve(returned).then(undefined, failed);
      }
    } catch (thrown) {
      failed(thrown);
    }
  }

  /** Emits a process warning. The error cannot be logged, because the listener could receive it again. */
  #warn(thrown: unknown): void {
    if (readTime() - this.#failedAt < FAILURE_PAUSE) return;
    this.#failedAt = readTime();
    try {
      const error = types.isNativeError(thrown) ? String(thrown) : inspect(thrown, { depth: 0 });
      emitProcessWarning(`a listener of ${this.#source} threw ${error}`);
    } catch {
      // The error cannot be read, or the program's `process.emitWarning` throws. No other place is left.
    }
  }
}
