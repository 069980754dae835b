/** Loads the native binary first, and explains a failure to load it. */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { outsideAsyncContext } from "../platform/async-context.js";
import {
  elfLength,
  explanation,
  type LoadFailure,
  mismatch,
  PLATFORMS,
  platformPackage,
  truncatedError,
} from "./binary.js";

/** The error for a binary that cannot be used. Its cause is the error of the loader. */
function unusable(text: string, cause?: unknown): Error {
  const error = new Error(text, cause === undefined ? undefined : { cause });
  return Object.assign(error, { code: "ERR_REDLOCK_BINARY" });
}

/**
 * Describes a failed load. Requires the platform package again, because the loader passes on error texts without their
 * codes.
 */
function describeFailure(thrown: unknown): LoadFailure {
  const all = {
    ...here,
    musl: isMusl(),
    installed: PLATFORMS.filter((platform) => isInstalled(platform)),
  };
  const platform = platformPackage(all);
  if (platform === undefined || !isInstalled(platform))
    return { ...all, errors: [thrown as Error] };
  try {
    createRequire(__filename)(`redlock-native-${platform}`);
  } catch (error) {
    return { ...all, errors: [error as Error, thrown as Error] };
  }
  return { ...all, errors: [thrown as Error] };
}

/**
 * Detects the C library from a process report. Reports are slow, mainly because they resolve the names of network
 * peers, so this is only called when needed and excludes the network.
 */
function isMusl(): boolean {
  if (process.platform !== "linux") return false;
  const report = process.report as (typeof process.report & { excludeNetwork?: boolean }) | null;
  // Node.js for Alpine Linux has reports, so a runtime without them does not use musl.
  if (!report) return false;
  const { excludeNetwork } = report;
  try {
    Reflect.set(report, "excludeNetwork", true);
    const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
    return header?.glibcVersionRuntime === undefined;
  } catch {
    return false;
  } finally {
    if (excludeNetwork !== undefined) Reflect.set(report, "excludeNetwork", excludeNetwork);
  }
}

/** Avoids `require`, because a bundler would try to resolve its argument. */
function isInstalled(platform: string): boolean {
  return resolved(`redlock-native-${platform}/package.json`) !== undefined;
}

function resolved(id: string): string | undefined {
  try {
    return createRequire(__filename).resolve(id);
  } catch {
    return undefined;
  }
}

/** Detects a truncated download. Mapping such a file would kill the process with a signal and no error message. */
function checkWhole(file: string): void {
  const head = Buffer.alloc(64);
  let size: number;
  try {
    const opened = openSync(file, "r");
    readSync(opened, head);
    size = fstatSync(opened).size;
    closeSync(opened);
  } catch {
    // The following load reports the reason.
    return;
  }
  const end = elfLength(head);
  if (size < end)
    throw unusable(explanation({ ...here, errors: [truncatedError(file, size, end)] }));
}

const { platform, arch, version: node } = process;
const { version } = require("../../../package.json") as { version: string };
const here: LoadFailure = { platform, arch, musl: false, node, version, errors: [], installed: [] };
const [gnu, musl] = [false, true].map((musl) =>
  resolved(`redlock-native-${platformPackage({ ...here, musl })}`),
);
// Detecting the C library needs a slow report, so this only happens if both packages are installed.
const binary = musl !== undefined && (gnu === undefined || (gnu !== musl && isMusl())) ? musl : gnu;
if (binary !== undefined) checkWhole(binary);
let found: unknown;
try {
  // The first load creates the process-wide state of the native part, which must not keep the caller's async context.
  ({ VERSION: found } = outsideAsyncContext(
    () => require("../native.js") as { VERSION?: unknown },
  ));
} catch (thrown) {
  throw unusable(explanation(describeFailure(thrown)), thrown);
}
if (found !== version) throw unusable(mismatch(version, found));
