/** Explains why the binary cannot be used, and what to do. */

/** The platforms with a binary. Each has a separate package. */
export const PLATFORMS = [
  "linux-x64-gnu",
  "linux-arm64-gnu",
  "linux-x64-musl",
  "linux-arm64-musl",
  "darwin-x64",
  "darwin-arm64",
  "win32-x64-msvc",
];

/** The data about this process and the failed load. */
export interface LoadFailure {
  platform: string;
  arch: string;
  /** Whether the system's C library is musl. */
  musl: boolean;
  /** The version of Node.js. */
  node: string;
  /** The version of the package. */
  version: string;
  /** The errors of the load. */
  errors: readonly NodeJS.ErrnoException[];
  /** The platforms whose packages are installed. */
  installed: readonly string[];
}

/** Returns the package name of this platform, or undefined if there is none. */
export function platformPackage({ platform, arch, musl }: LoadFailure): string | undefined {
  const suffix = { linux: musl ? "-musl" : "-gnu", win32: "-msvc" }[platform] ?? "";
  return PLATFORMS.find((each) => each === `${platform}-${arch}${suffix}`);
}

/** Returns the error message for a program that cannot load the package. */
export function explanation(failure: LoadFailure): string {
  const { platform, arch, musl, node, version } = failure;
  const here = `${platform}-${arch}${musl ? " with musl" : ""}`;
  const there = `Binaries exist for ${PLATFORMS.join(", ")}. This is ${here}, Node.js ${node}.`;
  return `cannot load redlock-native ${version}: ${explainCause(failure)}. ${there}`;
}

/** Returns the minimum length of a 64-bit ELF file, read from its first 64 bytes. 0 for other files. */
export function elfLength(head: Buffer): number {
  if (head.toString("latin1", 0, 6) !== "\x7fELF\x02\x01") return 0;
  // The section headers are at the end of the file.
  return Number(head.readBigUInt64LE(40)) + head.readUInt16LE(58) * head.readUInt16LE(60);
}

/** Creates the error that a loader would report for a truncated file. */
export function truncatedError(file: string, size: number, end: number): NodeJS.ErrnoException {
  const text = `${file}: truncated (${size} of at least ${end} bytes)`;
  return Object.assign(new Error(text), { code: "ERR_DLOPEN_FAILED" });
}

/** The message for a binary that can be loaded but belongs to another version. */
export function mismatch(version: string, found: unknown): string {
  const theirs = typeof found === "string" ? found : "an earlier version";
  const rule = "Both must have the same version";
  const action = "Remove node_modules and run npm ci";
  return `redlock-native ${version} found the binary of ${theirs}. ${rule}. ${action}`;
}

/** Deno's error for a permission that the program does not have. The file or the variable is in quotes. */
const REFUSED_BY_DENO = /^Requires \w+ access to .*, run again with the --allow-\w+ flag$/m;

/** Returns Deno's message about a refused permission. The loader passes it on as the cause of other errors. */
function refusedByDeno(errors: readonly unknown[]): string | undefined {
  for (const error of errors) {
    let current = error;
    // A limit, because an error may be its own cause.
    for (let depth = 0; current instanceof Error && depth < 20; depth += 1) {
      const [refusal] = REFUSED_BY_DENO.exec(current.message) ?? [];
      if (refusal !== undefined) return refusal;
      current = current.cause;
    }
  }
  return undefined;
}

function explainCause(failure: LoadFailure): string {
  const refusal = refusedByDeno(failure.errors);
  if (refusal !== undefined) {
    return `Deno does not permit it (${refusal}). Run deno with --allow-ffi, --allow-env, and --allow-read for node_modules`;
  }
  const failed = failure.errors.find(({ code }) => code?.startsWith("ERR_DLOPEN"));
  if (failed !== undefined) return explainUnloadable(failed);
  const denied = failure.errors.find(({ code }) => code === "ERR_ACCESS_DENIED");
  if (denied !== undefined) {
    return `the permission model of Node.js does not allow reading the binary (${denied.message}). Add --allow-fs-read for node_modules, and --allow-addons`;
  }
  return explainMissing(failure);
}

/** Explains a file that cannot be loaded. */
function explainUnloadable({ code, message }: NodeJS.ErrnoException): string {
  if (code === "ERR_DLOPEN_DISABLED") {
    return "Node.js was started without permission to load native addons (--permission or --no-addons). Add --allow-addons, or remove --no-addons";
  }
  const [text] = message.split("\n");
  if (/GLIBC/.test(message)) {
    return `the system's C library is too old (${text}). glibc 2.17 or newer is required`;
  }
  const damaged =
    /ELF|too short|mach-o|architecture|Exec format|valid Win32|slice|truncated|self-register/i;
  if (damaged.test(message)) {
    return `its binary is damaged or belongs to another platform (${text}). Remove node_modules and run npm ci on this machine`;
  }
  return `the system cannot load its binary (${text})`;
}

/** Explains a file that is missing. */
function explainMissing(failure: LoadFailure): string {
  const { platform, arch, version, installed } = failure;
  const suffix = platformPackage(failure);
  if (suffix === undefined) return `there is no binary for ${platform}-${arch}`;
  const name = `redlock-native-${suffix}`;
  if (installed.includes(suffix)) {
    return `${name} is installed, but its .node file is missing. A file tracer or a copy step may have omitted it. Install the package again, or include that file`;
  }
  if (installed.length > 0) {
    const others = installed.map((each) => `redlock-native-${each}`).join(", ");
    return `node_modules was installed for another platform (found ${others}, not ${name}). Run npm ci on this machine, and do not copy node_modules (.dockerignore)`;
  }
  const omitted = "Install without --omit=optional (--no-optional, --ignore-optional)";
  const lockFile = `If a lock file from another platform lacks it, run npm install ${name}@${version}`;
  return `its optional dependency ${name} is not installed. ${omitted}. ${lockFile}. In a bundler, mark redlock-native as external`;
}
