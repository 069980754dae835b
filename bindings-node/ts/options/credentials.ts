/** Credentials that a function of the program returns. */

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

/** The result for the native part: the reason for a failure, or user, password and lifetime. */
export type CredentialsResult = [
  failure: string | undefined,
  username?: string | undefined,
  password?: string,
  lifetime?: number | undefined,
];

/** Converts what the function returned. */
export function readCredentials(given: unknown): CredentialsResult {
  if (typeof given === "string") return readCredentials({ password: given });
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
