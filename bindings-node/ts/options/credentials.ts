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

const FIELDS = ["username", "password", "lifetime"];
const RULE = "must return a password or { username, password, lifetime }, with lifetime in ms";
/** A name that may be shown in an error. Any other one could be a secret. */
const FIELD_NAME = /^[a-z_]{1,30}$/i;

/** Converts what the function returned. */
export function readCredentials(given: unknown): CredentialsResult {
  if (typeof given === "string") return readCredentials({ password: given });
  if (typeof given === "object" && given !== null && !Array.isArray(given)) {
    const unknown = Object.keys(given).find((name) => !FIELDS.includes(name));
    if (unknown !== undefined) return [`returned ${describeField(unknown)}. It ${RULE}`];
    const { username, password, lifetime } = given as Partial<Credentials>;
    const named = username === undefined || typeof username === "string";
    const lasts = lifetime === undefined || typeof lifetime === "number";
    if (named && lasts && typeof password === "string") {
      const hasSurrogate = [username, password].some((text) => LONE_SURROGATE.test(text ?? ""));
      if (!hasSurrogate) return [undefined, username, password, lifetime];
      return ["must return text without lone surrogates, which UTF-8 cannot represent"];
    }
  }
  return [`${RULE} (got a value of type ${typeof given})`];
}

/** Describes a field that would otherwise be ignored: the client would log in as another user. */
function describeField(name: string): string {
  if (!FIELD_NAME.test(name)) return "an unknown field";
  const meant = FIELDS.find((field) => field.startsWith(name.toLowerCase()));
  return `the unknown field ${name}${meant === undefined ? "" : ` (did you mean ${meant}?)`}`;
}
