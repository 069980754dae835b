/** Functions of the program that return credentials. They run on this thread. */

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
export class Kept {
  readonly number: number;

  constructor(readonly ask: CredentialsSource) {
    last += 1;
    this.number = last;
    known.set(this.number, new WeakRef(this));
    collected.register(this, this.number);
  }
}

let last = 0;
const known = new Map<number, WeakRef<Kept>>();
const collected = new FinalizationRegistry<number>((number) => known.delete(number));

/** The result for the native part: the reason for a failure, or user, password and lifetime. */
export type Told = [
  failure: string | undefined,
  username?: string | undefined,
  password?: string,
  lifetime?: number | undefined,
];

/** Calls the function with this number. */
export async function asked(number: number): Promise<Told> {
  const kept = known.get(number)?.deref();
  if (kept === undefined) return ["cannot be called: the client was garbage-collected"];
  try {
    return read(await kept.ask());
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

function read(given: unknown): Told {
  if (typeof given === "string") return [undefined, undefined, given];
  if (typeof given === "object" && given !== null) {
    const { username, password, lifetime } = given as Partial<Credentials>;
    const named = username === undefined || typeof username === "string";
    const lasts = lifetime === undefined || typeof lifetime === "number";
    if (named && lasts && typeof password === "string") {
      return [undefined, username, password, lifetime];
    }
  }
  const rule = "a password or { username, password, lifetime }, with lifetime in ms";
  return [`must return ${rule} (got a value of type ${typeof given})`];
}
