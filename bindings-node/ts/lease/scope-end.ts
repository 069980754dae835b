/** The release at the end of a scope. */

import type { LockError } from "../errors/errors.js";
import { shown } from "../native.js";
import type { LogEvent } from "../telemetry/log.js";
import { warnOwn } from "../telemetry/warnings.js";

/**
 * Awaits the release at the end of a scope. Unreachable nodes only cause a warning.
 *
 * `alreadyThrown` means that the program already got the error of the loss. It is then not thrown again.
 */
export async function awaitScopeEnd(
  ending: Promise<unknown>,
  alreadyThrown = false,
): Promise<void> {
  try {
    await ending;
  } catch (error) {
    const { kind, message, resource } = error as LockError;
    if (kind === "lost" && alreadyThrown) return;
    if (kind !== "unavailable") throw error;
    const fields: LogEvent["fields"] = { why: message };
    if (resource !== undefined) fields.key = shown(resource);
    // The same event as that of core, which ends the scopes of other languages.
    warnOwn("lease", "not released: {why}", fields);
  }
}
