/** Calls functions of the program: `credentials`, `addressMap`. They run on this thread. */

import { type AddressFunction, type AddressResult, readAddress } from "./address-map.js";
import { type CredentialsResult, type CredentialsSource, readCredentials } from "./credentials.js";

/** The functions of one client. */
export interface Callbacks {
  credentials?: CredentialsSource | undefined;
  addressMap?: AddressFunction | undefined;
}

/**
 * Keeps the functions of a client alive for each object that needs them. The native part only knows their number, so
 * that a cycle can be collected.
 */
export class CallbacksHandle {
  readonly number: number;

  constructor(readonly callbacks: Callbacks) {
    lastNumber += 1;
    this.number = lastNumber;
    known.set(this.number, new WeakRef(this));
    collected.register(this, this.number);
  }
}

let lastNumber = 0;
const known = new Map<number, WeakRef<CallbacksHandle>>();
const collected = new FinalizationRegistry<number>((number) => known.delete(number));

const COLLECTED = "cannot be called: the client was garbage-collected";

/** Calls the credentials function of the client with this number. */
export async function callCredentials(number: number): Promise<CredentialsResult> {
  const { credentials } = known.get(number)?.deref()?.callbacks ?? {};
  if (credentials === undefined) return [COLLECTED];
  try {
    return readCredentials(await credentials());
  } catch (error) {
    // The text of the program's error may contain the secret.
    return [`threw ${classOf(error)} (message not shown)`];
  }
}

/** Calls the address map of the client with this number. */
export async function callAddressMap(
  number: number,
  host: string,
  port: number,
): Promise<AddressResult> {
  const { addressMap } = known.get(number)?.deref()?.callbacks ?? {};
  if (addressMap === undefined) return [COLLECTED];
  try {
    return readAddress(await addressMap(host, port));
  } catch (error) {
    return [`threw ${classOf(error)}${messageOf(error)}`];
  }
}

function classOf(error: unknown): string {
  try {
    return error instanceof Error ? String(error.constructor.name) : typeof error;
  } catch {
    return "an object that cannot be read";
  }
}

/** Returns the message of an error, which the program may have changed to any value. */
function messageOf(error: unknown): string {
  try {
    return error instanceof Error && typeof error.message === "string" ? `: ${error.message}` : "";
  } catch {
    return "";
  }
}
