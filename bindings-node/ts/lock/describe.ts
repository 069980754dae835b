/** The descriptions of what to lock, for every client. */

import {
  checkLeader,
  checkOnce,
  checkOptions,
  checkSemaphore,
  type LeaderOptions,
  LOCK,
  type LockOptions,
  type OnceOptions,
  type SemaphoreOptions,
} from "../options/options.js";
import { nameList } from "../options/values.js";
import { Leader } from "./leader.js";
import type { Lock } from "./lock.js";
import { Once } from "./once.js";

/**
 * Creates a lock of one client, with checked names and options.
 * @internal
 */
export type Create = <Fencing extends boolean>(
  names: string[],
  options: LockOptions,
) => Lock<Fencing>;

/** @internal */
export function describeLock<Fencing extends boolean>(
  create: Create,
  names: string | readonly string[],
  options: LockOptions<Fencing> | undefined,
): Lock<Fencing> {
  const list = nameList(names, "the name", "lock()");
  return create(list, checkOptions(options, LOCK, "lock()"));
}

/** @internal */
export function describeSemaphore(
  create: Create,
  name: string,
  options: SemaphoreOptions,
): Lock<false> {
  return create(nameList(name, "the name", "semaphore()"), checkSemaphore(options));
}

/** @internal */
export function describeOnce(create: Create, name: string, options: OnceOptions): Once {
  return new Once(create(nameList(name, "the name", "once()"), checkOnce(options)));
}

/** @internal */
export function describeLeader<Fencing extends boolean>(
  create: Create,
  name: string,
  options: LeaderOptions<Fencing> | undefined,
): Leader<Fencing> {
  return new Leader(create(nameList(name, "the name", "leader()"), checkLeader(options)));
}
