/** Stacks of errors: what is ours on top of them says nothing to whoever reads them. */

import { dirname, join, sep } from "node:path";

/** A stack as it was taken: its text costs more than all else, and is made once somebody reads it. */
export class Taken {
  #source: { stack?: unknown } | undefined = {};
  #text: unknown;
  readonly #limit: number;

  /** Down from the caller of `below`; `limit` is what the program wants to see. */
  constructor(below: abstract new (...args: never[]) => unknown, limit: number) {
    this.#limit = limit;
    limitFrames(limit + OURS);
    capture(this.#source as object, below as never);
    limitFrames(limit);
  }

  /** As the stack of this error. */
  of({ name, message }: Error): unknown {
    if (this.#source !== undefined) {
      this.#text = trimmed(`${name}: ${message}`, this.#source.stack, this.#limit);
      this.#source = undefined;
    }
    return this.#text;
  }
}

/**
 * Sets how many frames new stacks have, and returns the limit until now. Where a program has frozen `Error` the limit
 * stays, and an assignment would throw.
 */
export function limitFrames(frames: number): number {
  const limit = Error.stackTraceLimit;
  Reflect.set(Error, "stackTraceLimit", frames);
  return limit;
}

/** Takes the stack below this function. It stays empty where a program's replacement of the platform's function fails. */
export function capture(target: { stack?: unknown }, below: (...args: never[]) => unknown): void {
  try {
    Error.captureStackTrace(target, below);
  } catch {}
}

/**
 * The first frame of a stack that `capture` took. It is made by the program's own `Error.prepareStackTrace`, if there is
 * one, which may return call sites or anything else, and may throw.
 */
export function firstFrame(target: { readonly stack?: unknown }): string {
  try {
    const { stack } = target;
    if (Array.isArray(stack)) return String(stack[0]);
    const [, frame] = /^\s+at (.*)$/m.exec(stack as string) ?? [];
    if (frame !== undefined) return frame;
  } catch {}
  return "a line that Error.prepareStackTrace does not tell";
}

/** How many frames of ours an error may have on top. */
const OURS = 6;

/** Where our files are; in a program's bundle, where they are its own, nothing is cut. */
const folder =
  typeof __filename === "string" && dirname(__filename).endsWith(join("bindings-node", "dist"))
    ? dirname(__filename) + sep
    : undefined;

const isOurs = (frame: string) => folder !== undefined && frame.includes(folder);

/** What a program's own `prepareStackTrace` may have made stays as it is, unless it is text. */
function trimmed(header: string, stack: unknown, limit: number): unknown {
  if (typeof stack !== "string") return stack;
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  const first = frames.findIndex(
    (frame) => !isOurs(frame) && !/[( ](node:|<anonymous>)/.test(frame),
  );
  const theirs = first >= 0 && frames.slice(0, first).some(isOurs) ? frames.slice(first) : frames;
  return [header, ...theirs.slice(0, limit)].join("\n");
}
