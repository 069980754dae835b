/** The program's log of events. */

import { InvalidOption } from "../errors/errors.js";
import { checkOptions, type Rules } from "../options/options.js";
import { checkCallback, formatValue } from "../options/values.js";
import { native } from "../runtime/runtime.js";
import { addLogListener, LOG_LEVELS, type LogLevel, type LogListener } from "../telemetry/log.js";

/** Options of `onLog()`. */
export interface LogOptions {
  /** The least important level to receive, by default `debug`: every step. An acquire takes longer with `debug`. */
  level?: LogLevel | undefined;
}

const LOG: Rules = { level: "string" };

/**
 * Calls `listener` for each log event of all clients in this process.
 *
 * Warnings are not process warnings while a listener receives them. A listener does not keep the process alive, and a
 * slow one delays no renewal. If it throws, or is async and rejects, the error is reported by a process warning.
 * @param listener The function to call. It receives `level`, `logger`, `event`, `message` and `fields`.
 * @param options `level`, by default `debug`.
 * @returns A function that removes the listener.
 * @throws `InvalidOption` if `listener` is not a function, and for an unknown level.
 *
 * @example
 * ```js
 * const stop = onLog(({ level, message, fields }) => console.log(level, message, fields), { level: "warn" });
 * stop();
 * ```
 */
export function onLog(listener: LogListener, options?: LogOptions): () => void {
  const call = "onLog()";
  const { level = "debug" } = checkOptions(options, LOG, call);
  if (!LOG_LEVELS.includes(level)) {
    const rule = `level must be one of ${LOG_LEVELS.join(", ")}`;
    throw new InvalidOption(`${call}: ${rule} (got ${formatValue(level)})`);
  }
  const remove = addLogListener(checkCallback(listener, call), level);
  native();
  return () => {
    remove();
    native();
  };
}
