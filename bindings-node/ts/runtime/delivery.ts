/** Delivers the outcomes of calls to their callers. */

import { type Failure, type Notice, OUTCOME_COLUMNS } from "../native.js";
import { readTime } from "../platform/clock.js";
import { throwLater } from "../telemetry/warnings.js";
import { onOutcomes } from "./connection.js";
import { handleNotice } from "./notices.js";
import { deliver, Failed } from "./pending.js";
import {
  copyOutcomes,
  isFailure,
  isSideValue,
  outcomes,
  readGrant,
  slotAt,
  valueAt,
} from "./rows.js";
import { isBatching, send, startBatching, stopBatching } from "./sender.js";

/**
 * Maximum delay of recorded calls, in ms. Calls of continuations are sent together, but none waits longer for others.
 */
const MAX_DELAY = 1;

/** The outcomes that are being delivered, and where those begin that their callers have not received. */
let delivering: Float64Array | undefined;
let nextRow = 0;

/** Whether the outcomes that are being delivered were read more than `MAX_DELAY` ago. */
let late = false;
let time = 0;

/** Whether leases of the outcomes that are being delivered may have ended since the native part checked them. */
export const isLate = (): boolean => late;

/** Returns the time in ms. While outcomes are delivered, this is the last time that was read. */
export function now(): number {
  return isBatching() ? time : readTime();
}

/** Returns the outcomes that their callers have not received. */
export function undelivered(): ArrayLike<number> {
  return delivering?.subarray(nextRow) ?? [];
}

/** A batch in which no outcome needs more than numbers. */
const NO_VALUES: unknown[] = [];

/** Delivers outcomes. A single one is delivered synchronously, so its awaiting caller continues when this returns. */
function settle(rows: number, sideValues = NO_VALUES): void {
  late = false;
  if (rows === 1) settleOne(outcomes, 0, sideValues);
  else void settleAll(copyOutcomes(rows), sideValues);
}

onOutcomes(settle);

/** Delivers the outcome in the row at `at`. An exception of the program's code does not affect other rows. */
function settleOne(batch: Float64Array, at: number, sideValues: unknown[]): void {
  try {
    settleRow(batch, at, sideValues);
  } catch (thrown) {
    throwLater(thrown);
  }
}

/** Delivers one row. If it has a side value, that is the first of `sideValues`, which this removes. */
function settleRow(batch: Float64Array, at: number, sideValues: unknown[]): void {
  const slot = slotAt(batch, at);
  const value = valueAt(batch, at);
  if (slot < 0) handleNotice(slot as Notice, value, sideValues.shift());
  else if (isFailure(value)) deliver(slot, new Failed(sideValues.shift() as Failure));
  else if (isSideValue(value)) deliver(slot, sideValues.shift());
  else deliver(slot, readGrant(batch, at));
}

/**
 * Delivers one outcome at a time, and lets its awaiting caller run before the next. Otherwise the caller of the first
 * lease could block the thread until the second one, which was already checked, has expired.
 */
async function settleAll(batch: Float64Array, sideValues: unknown[]): Promise<void> {
  try {
    delivering = batch;
    startBatching();
    time = readTime();
    let sent = time;
    for (let at = 0; at < batch.length; at += OUTCOME_COLUMNS) {
      nextRow = at + OUTCOME_COLUMNS;
      settleOne(batch, at, sideValues);
      await undefined;
      time = readTime();
      if (time - sent > MAX_DELAY) {
        send();
        sent = time;
        late = true;
      }
    }
  } finally {
    delivering = undefined;
    stopBatching();
    send();
  }
}
