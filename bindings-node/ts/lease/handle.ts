/**
 * The state behind a `Lease`, which is a number in the native part and the values that remain after the lease has
 * ended.
 */

import { InvalidOption, type LockLost, LockReleased, toError } from "../errors/errors.js";
import { type Failure, shown } from "../native.js";
import type { CallbacksHandle } from "../options/callbacks.js";
import { checkOptions, LOCK, type LockOptions, rejectSignal } from "../options/options.js";
import { release } from "../runtime/operations.js";
import { Failed } from "../runtime/pending.js";
import { attempt, failing, settled, unwrap } from "../runtime/results.js";
import type { Grant } from "../runtime/rows.js";
import { native } from "../runtime/runtime.js";
import { hasSubscribers, lossHasSubscribers, traced } from "../telemetry/trace.js";
import { type CallSite, formatCallSite } from "./call-sites.js";
import { type LeaseRecord, unwatchLease, type Watched } from "./collection.js";
import { forget, type Loss, lossOf, reportLoss } from "./loss.js";

/** The data that a lease shares with its lock. */
export interface LockInfo {
  readonly key: string;
  readonly keys: readonly string[];
  readonly ttl: number;
  /** Whether each lease has its own keys, as those of a semaphore. */
  readonly hasOwnKeys?: boolean | undefined;
  /** Keeps the functions of the options alive for the client's connections. */
  readonly keepAlive?: CallbacksHandle | undefined;
}

/** Returns the data of a lease that has only some of the keys. The native part knows them while the lease is held. */
function withOwnKeys({ key, ttl, keepAlive }: LockInfo, id: number): LockInfo {
  return { key, ttl, keepAlive, keys: native().leaseKeys(id) ?? [] };
}

/** The state behind a `Lease`. The public members of `Lease` document the members of the same name. */
export class LeaseHandle implements Watched {
  readonly id: number;
  readonly #lock: LockInfo;
  readonly #grant: Grant | undefined;
  readonly #site: CallSite | undefined;
  #token: string | undefined;
  #fence: number | null = null;
  /** Set by `extend`, for use after the lease has ended. */
  #ttl: number | undefined;
  #registered = false;
  #released = false;
  /** The loss that a failed release found. The native part no longer knows the lease then. */
  #failure: Failure | undefined;
  #loss: Loss | undefined;
  #lossWasThrown = false;
  #entered = false;

  constructor(id: number, lock: LockInfo, site?: CallSite, grant?: Grant) {
    this.id = id;
    this.#lock = lock.hasOwnKeys ? withOwnKeys(lock, id) : lock;
    this.#site = site;
    this.#grant = grant;
    // Read now, because the native part only has it while the lease is held.
    if (grant?.hasToken === false) this.#token = native().leaseToken(id) ?? "";
    if (lossHasSubscribers()) this.#loss = lossOf(id, lock.key);
  }

  register(): LeaseRecord | undefined {
    if (this.#released || this.#site === undefined) return undefined;
    // Core logs the call site when the lease is held for a long time, or when its own client waits for it.
    native().leaseCallSite(this.id, formatCallSite(this.#site));
    this.#registered = true;
    return { id: this.id, key: this.#lock.key, site: this.#site };
  }

  get keys(): string[] {
    return [...this.#lock.keys];
  }

  get ttl(): number {
    return native().leaseTtl(this.id) ?? this.#ttl ?? this.#lock.ttl;
  }

  get token(): string {
    this.#token ??= this.#grant?.token ?? native().leaseToken(this.id) ?? "";
    return this.#token;
  }

  get fencingToken(): number {
    this.#fence ??= this.#grant?.fence || native().leaseFence(this.id);
    if (this.#fence !== null) return this.#fence;
    const { key } = this.#lock;
    const text = "this lease has no fencing token. Create the lock with { fencing: true }";
    const attached =
      "Readers and permits have none, and an attached lease has none either, so send it with the token";
    throw new InvalidOption(`${shown(key)}: ${text}. ${attached}`, { resource: key });
  }

  /** Whether the program already got an exception for the loss. */
  get lossWasThrown(): boolean {
    return this.#lossWasThrown;
  }

  /** Records a loss that is about to be thrown. */
  #noteLoss({ kind, reason }: Failure): void {
    if (kind === "lost" && reason !== undefined) this.#lossWasThrown = true;
  }

  /** The loss, if it aborted a signal that the program has read. */
  get abortReason(): LockLost | undefined {
    return this.#loss?.abortReason;
  }

  /** The listeners for the loss of this lease. */
  get loss(): Loss {
    this.#loss ??= lossOf(this.id, this.#lock.key);
    return this.#loss;
  }

  get held(): boolean {
    return native().leaseHeld(this.id);
  }

  get remaining(): number {
    return native().leaseRemaining(this.id);
  }

  ensureHeld(): void {
    const failure = this.#failure ?? native().leaseFailure(this.id);
    if (failure) {
      this.#noteLoss(failure);
      throw toError(failure);
    }
    if (!this.held) throw this.#releasedError();
  }

  /** Whether it was lost, and not released. */
  get isLost(): boolean {
    return Boolean((this.#failure ?? native().leaseFailure(this.id))?.reason);
  }

  /** Whether it was released, or its loss was reported. From the first call on, this watches for the loss. */
  get hasEnded(): boolean {
    return this.#released || this.loss.isReported;
  }

  /** Begins a scope that releases the lease at its end. */
  enter(): void {
    this.ensureHeld();
    if (this.#entered) {
      const { key } = this.#lock;
      const text =
        "this lease is already in a scope, which releases it. Use it there without 'using'";
      throw new InvalidOption(`${shown(key)}: ${text}`, { resource: key });
    }
    this.#entered = true;
  }

  extend(ttl?: number): Promise<void> {
    const call = () => this.#extend(ttl);
    return hasSubscribers("extend") ? traced("extend", this.#lock, call) : call();
  }

  async #extend(given?: number): Promise<void> {
    const { ttl } = checkOptions<LockOptions>({ ttl: given }, LOCK, "extend()");
    const begin = (slot: number) => {
      if (this.#failure) {
        this.#noteLoss(this.#failure);
        throw toError(this.#failure);
      }
      if (!attempt(() => native().leaseExtend(slot, this.id, ttl))) throw this.#releasedError();
    };
    const outcome = await settled(begin);
    if (outcome instanceof Failed) this.#noteLoss(outcome.failure);
    unwrap(outcome);
    this.#ttl = this.ttl;
  }

  /** Releases the lease, after a body that `completed` with success or not. */
  release(none: unknown, completed = false): Promise<void> {
    if (!hasSubscribers("release")) return this.#release(none, completed);
    return traced("release", this.#lock, () => this.#release(none, completed));
  }

  #release(none: unknown, completed: boolean): Promise<void> {
    return new Promise((resolve) => {
      if (none !== undefined) rejectSignal(none, "release()");
      if (this.#failure) return resolve(failing(new Failed(this.#failure)));
      if (this.#released) return resolve();
      this.#storeValues();
      const receive = (outcome: unknown) => {
        if (outcome instanceof Failed) {
          this.#noteLoss(outcome.failure);
          this.#markFailed();
          return resolve(failing(outcome));
        }
        this.#markEnded();
        resolve();
      };
      release(this.id, receive, completed);
    });
  }

  detach(): boolean {
    this.#storeValues();
    const held = native().leaseDetach(this.id);
    this.#markEnded();
    return held;
  }

  /** Ends the lease after its release failed. A loss is still reported to listeners and by later calls. */
  #markFailed(): void {
    const failure = native().leaseFailure(this.id);
    // It is still held if the native part failed to release it, and has ended if an earlier release failed.
    if (!failure) return;
    if (failure.reason) {
      this.#failure = failure;
      // Listeners may also be added later.
      void this.loss;
      reportLoss(this.id, failure);
    }
    native().leaseDetach(this.id);
    this.#markEnded();
  }

  #markEnded(): void {
    this.#released = true;
    if (this.#registered) unwatchLease(this, this.id);
    forget(this.id);
  }

  /** Stores values that the native part only has while the lease is held. A grant already contains them. */
  #storeValues(): void {
    if (this.#grant !== undefined) return;
    this.#token ??= this.token;
    this.#fence ??= native().leaseFence(this.id);
  }

  #releasedError(): LockReleased {
    const { key } = this.#lock;
    const text = `${shown(key)}: the lease was released and is no longer held`;
    return new LockReleased(text, { resource: key });
  }
}
