/** Loads the binary before all else does, and says what is wrong where that fails. */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import {
  cutShort,
  endOfElf,
  explanation,
  type Facts,
  mismatch,
  PLATFORMS,
  wanted,
} from "./binary.js";
import { outside } from "./outside.js";

/** What the program is told; the loader's own error is the cause. */
function unusable(text: string, cause?: unknown): Error {
  const error = new Error(text, cause === undefined ? undefined : { cause });
  return Object.assign(error, { code: "ERR_REDLOCK_BINARY" });
}

/** Where nothing was loaded: asked once more, as the loader passes texts on without their codes. */
function facts(thrown: unknown): Facts {
  const all = { ...here, musl: isMusl(), installed: PLATFORMS.filter((platform) => has(platform)) };
  const platform = wanted(all);
  if (platform === undefined || !has(platform)) return { ...all, errors: [thrown as Error] };
  try {
    createRequire(__filename)(`redlock-native-${platform}`);
  } catch (error) {
    return { ...all, errors: [error as Error] };
  }
  return { ...all, errors: [thrown as Error] };
}

/** Asked for where all is lost: a report takes its time, most of it for the names of peers. */
function isMusl(): boolean {
  if (process.platform !== "linux") return false;
  const report = process.report as (typeof process.report & { excludeNetwork?: boolean }) | null;
  // A runtime without reports is none of Alpine's.
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

/** Not by `require`, whose argument a bundler would want to know. */
function has(platform: string): boolean {
  return resolved(`redlock-native-${platform}/package.json`) !== undefined;
}

function resolved(id: string): string | undefined {
  try {
    return createRequire(__filename).resolve(id);
  } catch {
    return undefined;
  }
}

/** A download that was cut: to map such a file would end the process by a signal, with no word. */
function checkWhole(file: string): void {
  const head = Buffer.alloc(64);
  let size: number;
  try {
    const opened = openSync(file, "r");
    readSync(opened, head);
    size = fstatSync(opened).size;
    closeSync(opened);
  } catch {
    // Whoever loads it says why.
    return;
  }
  const end = endOfElf(head);
  if (size < end) throw unusable(explanation({ ...here, errors: [cutShort(file, size, end)] }));
}

const { platform, arch, version: node } = process;
const { version } = require("../../package.json") as { version: string };
const here: Facts = { platform, arch, musl: false, node, version, errors: [], installed: [] };
const [gnu, musl] = [false, true].map((musl) =>
  resolved(`redlock-native-${wanted({ ...here, musl })}`),
);
// Which C library this is costs a report to know: asked for where both are installed.
const binary = musl !== undefined && (gnu === undefined || (gnu !== musl && isMusl())) ? musl : gnu;
if (binary !== undefined) checkWhole(binary);
let found: unknown;
try {
  // The first one to load it makes what the native part has for the whole process.
  ({ VERSION: found } = outside(() => require("./native.js") as { VERSION?: unknown }));
} catch (thrown) {
  throw unusable(explanation(facts(thrown)), thrown);
}
if (found !== version) throw unusable(mismatch(version, found));
