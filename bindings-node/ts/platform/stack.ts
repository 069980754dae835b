/** Stack traces of errors, without the frames of this package at the top. */

import { dirname, join, sep } from "node:path";

/** A captured stack. Creating its text is expensive, so this happens when it is read. */
export class CapturedStack {
  #source: { stack?: unknown } | undefined = {};
  #text: unknown;
  readonly #limit: number;

  /** Captures the stack from the caller of `below` down. `limit` is the program's stack trace limit. */
  constructor(below: abstract new (...args: never[]) => unknown, limit: number) {
    this.#limit = limit;
    limitFrames(limit + MAX_OWN_FRAMES);
    capture(this.#source as object, below as never);
    limitFrames(limit);
  }

  /** Returns the stack of this error as text. */
  textFor({ name, message }: Error): unknown {
    if (this.#source !== undefined) {
      this.#text = trimmed(`${name}: ${message}`, this.#source.stack, this.#limit);
      this.#source = undefined;
    }
    return this.#text;
  }
}

/**
 * Sets the stack trace limit and returns the previous one. If a program has frozen `Error`, the limit does not change,
 * whereas an assignment would throw.
 */
export function limitFrames(frames: number): number {
  const limit = Error.stackTraceLimit;
  Reflect.set(Error, "stackTraceLimit", frames);
  return limit;
}

/**
 * Captures the stack below this function. It stays empty if the program replaced the platform's function and that
 * throws.
 */
export function capture(target: { stack?: unknown }, below: (...args: never[]) => unknown): void {
  try {
    Error.captureStackTrace(target, below);
  } catch {}
}

/**
 * Returns the first frame of a stack that `capture` took. The program's `Error.prepareStackTrace` may have created the
 * stack, so it may be call sites or any other value, and reading it may throw.
 */
export function firstFrame(target: { readonly stack?: unknown }): string {
  try {
    const { stack } = target;
    if (Array.isArray(stack)) return String(stack[0]);
    const [, frame] = /^\s+at (.*)$/m.exec(stack as string) ?? [];
    if (frame !== undefined) return frame;
  } catch {}
  return "an unknown line (hidden by Error.prepareStackTrace)";
}

/** Maximum number of frames of this package at the top of an error. */
const MAX_OWN_FRAMES = 6;

/** The end of the folder that contains this package's files: when installed, and in its repository. */
const FOLDERS = [join("node_modules", "redlock-native"), join("bindings-node", "dist")];

/** The folder of this package's files. Nothing is removed in a program's bundle, where the frames are the program's. */
const folder =
  typeof __filename === "string" && FOLDERS.some((end) => dirname(__filename).endsWith(end))
    ? dirname(__filename) + sep
    : undefined;

const isOwnFrame = (frame: string) => folder !== undefined && frame.includes(folder);

/**
 * Removes the frames of this package. Returns a stack that the program's `prepareStackTrace` created unchanged, unless
 * it is text.
 */
function trimmed(header: string, stack: unknown, limit: number): unknown {
  if (typeof stack !== "string") return stack;
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  const first = frames.findIndex(
    (frame) => !isOwnFrame(frame) && !/[( ](node:|<anonymous>)/.test(frame),
  );
  const rest = first >= 0 && frames.slice(0, first).some(isOwnFrame) ? frames.slice(first) : frames;
  return [header, ...rest.slice(0, limit)].join("\n");
}
