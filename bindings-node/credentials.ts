/** Who says as whom to log in: functions of the program's, asked on this thread. */

/** As whom to log in. */
export interface Credentials {
  /** Default the server's `default` user. */
  username?: string | undefined;
  password: string;
  /** For how long they hold from the moment they were asked for, in ms: before that the open connection logs in again. */
  lifetime?: number | undefined;
}

/** What a function gives: a password alone, or more. */
export type CredentialsSource = () => string | Credentials | PromiseLike<string | Credentials>;

/** What keeps a function: each object that needs it. The native part knows a number, so that a cycle is collected. */
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

/** What the native part hears: why there are none, or user, password and lifetime. */
export type Told = [
  failure: string | undefined,
  username?: string | undefined,
  password?: string,
  lifetime?: number | undefined,
];

/** Asks the function of this number. */
export async function asked(number: number): Promise<Told> {
  const kept = known.get(number)?.deref();
  if (kept === undefined) return ["cannot be asked: the client was collected"];
  try {
    return read(await kept.ask());
  } catch (error) {
    // Its text is the program's, and may hold the secret.
    return [`raised ${classOf(error)}, whose text is not shown`];
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
  return [
    `gave a value of type ${typeof given}: it must be a password, or { username, password, lifetime in ms }`,
  ];
}
