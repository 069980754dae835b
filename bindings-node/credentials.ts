/** Functions of the program that return credentials. They run on this thread. */

import { LONE_SURROGATE } from "./values.js";

/** The credentials for a login. */
export interface Credentials {
  /** The Redis user. Default `default`. */
  username?: string | undefined;
  password: string;
  /**
   * Lifetime in ms, counted from the call of the function. The open connection logs in again before it ends. No limit
   * by default.
   */
  lifetime?: number | undefined;
}

/** A function, async or not, that returns a password or `Credentials`. */
export type CredentialsSource = () => string | Credentials | PromiseLike<string | Credentials>;

/**
 * Keeps a function alive for each object that needs it. The native part only knows its number, so that a cycle can be
 * collected.
 */
export class CredentialsHandle {
  readonly number: number;

  constructor(readonly getCredentials: CredentialsSource) {
    lastNumber += 1;
    this.number = lastNumber;
    known.set(this.number, new WeakRef(this));
    collected.register(this, this.number);
  }
}

let lastNumber = 0;
const known = new Map<number, WeakRef<CredentialsHandle>>();
const collected = new FinalizationRegistry<number>((number) => known.delete(number));

/** The result for the native part: the reason for a failure, or user, password and lifetime. */
export type CredentialsResult = [
  failure: string | undefined,
  username?: string | undefined,
  password?: string,
  lifetime?: number | undefined,
];

/** Calls the function with this number. */
export async function callCredentials(number: number): Promise<CredentialsResult> {
  const handle = known.get(number)?.deref();
  if (handle === undefined) return ["cannot be called: the client was garbage-collected"];
  try {
    // Called without `this`, which would be the handle.
    const { getCredentials } = handle;
    return read(await getCredentials());
  } catch (error) {
    // The text of the program's error may contain the secret.
    return [`threw ${classOf(error)} (message not shown)`];
  }
}

function classOf(error: unknown): string {
  try {
    return error instanceof Error ? String(error.constructor.name) : typeof error;
  } catch {
    return "an object that cannot be read";
  }
}

function read(given: unknown): CredentialsResult {
  if (typeof given === "string") return read({ password: given });
  if (typeof given === "object" && given !== null) {
    const { username, password, lifetime } = given as Partial<Credentials>;
    const named = username === undefined || typeof username === "string";
    const lasts = lifetime === undefined || typeof lifetime === "number";
    if (named && lasts && typeof password === "string") {
      const hasSurrogate = [username, password].some((text) => LONE_SURROGATE.test(text ?? ""));
      if (!hasSurrogate) return [undefined, username, password, lifetime];
      return ["must return text without lone surrogates, which UTF-8 cannot represent"];
    }
  }
  const rule = "a password or { username, password, lifetime }, with lifetime in ms";
  return [`must return ${rule} (got a value of type ${typeof given})`];
}
