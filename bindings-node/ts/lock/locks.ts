/** The locks of one client. */

import { NativeClient } from "../native.js";
import type { CallbacksHandle } from "../options/callbacks.js";
import {
  CLIENT,
  checkOptions,
  type LockOptions,
  nativeOptions,
  type RedlockOptions,
  type ShownOptions,
  shownOptions,
} from "../options/options.js";
import { NODES, nameList } from "../options/values.js";
import { attempt } from "../runtime/results.js";
import { native } from "../runtime/runtime.js";
import { BoundLock, OptionCache, SharedOptions } from "./bound-lock.js";
import { Lock } from "./lock.js";

/**
 * The private state of a client.
 * @internal
 */
export interface ClientParts {
  native: NativeClient;
  /** Keeps the functions of the options alive for the client's connections. */
  keepAlive: CallbacksHandle | undefined;
  /** The options that `toJSON` shows. The options themselves may contain secrets. */
  shown: ShownOptions;
  locks: Locks;
}

/**
 * Creates the locks of a client. The names and types of the options were checked before, and core checks their values.
 * @internal
 */
export class Locks {
  /** The option sets of the locks. */
  readonly #sets = new OptionCache<SharedOptions>();
  readonly #native: NativeClient;
  readonly #keepAlive: CallbacksHandle | undefined;

  constructor(native: NativeClient, keepAlive: CallbacksHandle | undefined) {
    this.#native = native;
    this.#keepAlive = keepAlive;
  }

  /** Bound, so that it can be passed on. */
  readonly create = <Fencing extends boolean>(
    names: string[],
    options: LockOptions,
  ): Lock<Fencing> => new Lock<Fencing>(this.bound(names, options));

  bound(names: string[], options: LockOptions): BoundLock {
    const make = () =>
      new SharedOptions(
        attempt(() => this.#native.optionSet(names, options)),
        options,
        this.#keepAlive,
      );
    const shared = this.#sets.getOrCreate(options, make);
    shared.check(names);
    return new BoundLock(shared, names);
  }
}

/**
 * Creates the state of a client, after checking its nodes and options.
 * @internal
 */
export function clientParts(
  nodes: string | URL | readonly (string | URL)[],
  options: RedlockOptions | undefined,
): ClientParts {
  const urls = nameList(nodes, NODES, "Redlock()");
  const given = checkOptions(options, CLIENT, "Redlock()");
  const [args, keepAlive] = nativeOptions(given, urls);
  const client = attempt(() => new NativeClient(native(), urls, args));
  const locks = new Locks(client, keepAlive);
  return { native: client, keepAlive, shown: shownOptions(given, CLIENT), locks };
}
