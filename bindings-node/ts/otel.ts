/**
 * OpenTelemetry: a span for each acquire and each hold, and metrics.
 *
 * The names, attributes and histogram boundaries are those of Python's `redlock.otel`. It reads the channels of
 * `node:diagnostics_channel` and `client.stats()`, so without this import nothing is recorded.
 */

import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  context,
  type Histogram,
  type Meter,
  type MeterProvider,
  metrics,
  type Observable,
  type ObservableCallback,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import {
  InvalidOption,
  type Lease,
  type LockCall,
  type LockEnd,
  LockError,
  Redlock,
  type Stats,
} from "./index.js";
import { VERSION } from "./native.js";

/** The maximum number of holds that are remembered until they end. */
const MAX_HOLDS = 10_000;
/** Boundaries of the histograms, in seconds: from an uncontended acquire to a job of hours. */
const SECONDS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_800, 7_200,
];

/** Options of `instrument()`. */
export interface InstrumentOptions {
  /** The provider of spans. Default: the global one. */
  tracerProvider?: TracerProvider | undefined;
  /** The provider of metrics. Default: the global one. */
  meterProvider?: MeterProvider | undefined;
}

/** Counts of a client, each with its attributes. */
type Counts = [count: number, attributes: Attributes][];

const COUNTERS: Record<string, [read: (stats: Stats) => Counts, description: string]> = {
  "redlock.acquires": [
    ({ granted, refused, timedOut, unavailable }) =>
      Object.entries({ granted, refused, timeout: timedOut, unavailable }).map(
        ([outcome, count]) => [count, { outcome }],
      ),
    "Acquires that ended, by outcome.",
  ],
  "redlock.renewals": [
    ({ renewed, unrenewed }) => [
      [renewed, { outcome: "confirmed" }],
      [unrenewed, { outcome: "unconfirmed" }],
    ],
    "Renewals, by whether a quorum confirmed them.",
  ],
  "redlock.losses": [
    ({ lost }) => Object.entries(lost).map(([reason, count]) => [count, { reason }]),
    "Leases that were lost, by reason.",
  ],
  "redlock.releases": [({ released }) => [[released, {}]], "Leases that their owner released."],
  "redlock.reconnects": [
    ({ reconnects }) => [[reconnects, {}]],
    "Connections that were opened again.",
  ],
};
const GAUGES: typeof COUNTERS = {
  "redlock.held": [({ held }) => [[held, {}]], "Leases that are held now."],
  "redlock.waiting": [({ waiting }) => [[waiting, {}]], "Acquires that are under way now."],
};

/** The begin of an acquire. */
interface Begin {
  /** Monotonic, in ms. */
  readonly at: number;
  readonly caller: Context;
}

/** The spans and metrics of locks, from `instrument()` to `uninstrument()`. */
class Instruments {
  readonly clients = new Set<Redlock>();
  readonly #tracer: Tracer;
  readonly #observed: [Observable, ObservableCallback][] = [];
  readonly #wait: Histogram;
  readonly #hold: Histogram;
  readonly #begins = new WeakMap<object, Begin>();
  /** Spans of holds and their begin in ms since the epoch, by token prefix, oldest first. */
  readonly #holds = new Map<string, [span: Span, began: number]>();

  constructor(tracer: Tracer, meter: Meter) {
    this.#tracer = tracer;
    for (const [name, [read, description]] of Object.entries(COUNTERS))
      this.#observe(meter.createObservableCounter(name, { description }), read);
    for (const [name, [read, description]] of Object.entries(GAUGES))
      this.#observe(meter.createObservableGauge(name, { description }), read);
    const histogram = (name: string, description: string) => {
      const advice = { explicitBucketBoundaries: SECONDS };
      return meter.createHistogram(name, { description, unit: "s", advice });
    };
    this.#wait = histogram("redlock.wait.duration", "How long acquires took, by outcome.");
    this.#hold = histogram(
      "redlock.hold.duration",
      "How long leases were held, by how they ended.",
    );
    tracingChannel<unknown, LockCall>("redlock:acquire").subscribe(this.#acquires);
    subscribe("redlock:end", this.#onEnd);
  }

  /** Stops recording, and ends the spans of leases that are still held. */
  stop(): void {
    tracingChannel<unknown, LockCall>("redlock:acquire").unsubscribe(this.#acquires);
    unsubscribe("redlock:end", this.#onEnd);
    for (const [instrument, callback] of this.#observed) instrument.removeCallback(callback);
    for (const [span] of this.#holds.values()) span.end();
    this.#holds.clear();
  }

  #observe(instrument: Observable, read: (stats: Stats) => Counts): void {
    const callback: ObservableCallback = (result) => {
      const totals = new Map<string, [number, Attributes]>();
      for (const client of this.clients) {
        for (const [count, attributes] of read(client.stats())) {
          const row = JSON.stringify(attributes);
          totals.set(row, [(totals.get(row)?.[0] ?? 0) + count, attributes]);
        }
      }
      for (const [total, attributes] of totals.values()) result.observe(total, attributes);
    };
    instrument.addCallback(callback);
    this.#observed.push([instrument, callback]);
  }

  /** Follows each acquire. The span belongs to the context of the caller. */
  readonly #acquires = {
    start: (call: LockCall) => {
      this.#begins.set(call, { at: performance.now(), caller: context.active() });
    },
    asyncEnd: (call: LockCall) => {
      const begin = this.#begins.get(call);
      if (begin !== undefined) this.#acquired(call, begin);
    },
    end: () => undefined,
    asyncStart: () => undefined,
    error: () => undefined,
  };

  #acquired({ key, result, error }: LockCall, { at, caller }: Begin): void {
    // An aborted acquire has no outcome.
    if (error !== undefined && !(error instanceof LockError)) return;
    const waited = performance.now() - at;
    const now = Date.now();
    const lease = result as Lease | null | undefined;
    const outcome = error?.kind ?? (lease ? "granted" : "refused");
    this.#wait.record(waited / 1_000, { outcome }, caller);
    const attributes: Attributes = { "redlock.key": key, "redlock.outcome": outcome };
    const options = { kind: SpanKind.CLIENT, attributes, startTime: now - waited };
    const span = this.#tracer.startSpan("redlock.acquire", options, caller);
    if (error?.holder !== undefined) span.setAttribute("redlock.holder", error.holder);
    if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: outcome });
    span.end(now);
    if (lease) this.#begin(key, lease.token.slice(0, 8), now, caller);
  }

  #begin(key: string, token: string, now: number, caller: Context): void {
    const attributes = { "redlock.key": key, "redlock.token": token };
    const hold = this.#tracer.startSpan("redlock.hold", { attributes, startTime: now }, caller);
    this.#take(token)?.[0].end();
    this.#holds.set(token, [hold, now]);
    const [oldest] = this.#holds.keys();
    if (this.#holds.size > MAX_HOLDS && oldest !== undefined) this.#take(oldest)?.[0].end();
  }

  #take(token: string): [Span, number] | undefined {
    const found = this.#holds.get(token);
    this.#holds.delete(token);
    return found;
  }

  /** Records the end of a lease that this thread acquired. Other threads have separate providers. */
  readonly #onEnd = (message: unknown): void => {
    const { token, end, reason, held, attached } = message as LockEnd;
    // The span belongs to the lease that was acquired, and ends with it.
    const found = attached ? undefined : this.#take(token);
    if (found === undefined) return;
    const [span, began] = found;
    this.#hold.record(held / 1_000, { end });
    span.setAttribute("redlock.end", end);
    if (end === "lost") {
      span.addEvent("lease lost", { "redlock.reason": reason });
      span.setStatus({ code: SpanStatusCode.ERROR, message: `lease lost: ${reason}` });
    }
    span.end(began + held);
  };
}

let current: Instruments | undefined;

/**
 * Records spans and durations of all locks of this thread, and counts of the given clients.
 *
 * Another call adds clients, and keeps the providers of the first call. The clients are kept until `uninstrument()`.
 * @param clients One client or several, whose `stats()` are exported.
 * @param options `tracerProvider` and `meterProvider`, by default the global ones.
 * @throws `InvalidOption` if `clients` has anything but clients.
 *
 * @example
 * ```js
 * instrument(client, { meterProvider });
 * ```
 */
export function instrument(
  clients: Redlock | readonly Redlock[],
  options: InstrumentOptions = {},
): void {
  const added = Array.isArray(clients) ? [...clients] : [clients];
  for (const client of added) {
    if (client instanceof Redlock) continue;
    throw new InvalidOption(
      `instrument(): clients must be a Redlock or an array of them (got ${typeof client})`,
    );
  }
  const { tracerProvider = trace, meterProvider = metrics } = options;
  current ??= new Instruments(
    tracerProvider.getTracer("redlock", VERSION),
    meterProvider.getMeter("redlock", VERSION),
  );
  for (const client of added) {
    current.clients.add(client);
    // The subscription to the ends of leases takes effect with a call.
    client.stats();
  }
}

/**
 * Stops recording, and ends the spans of leases that are still held.
 *
 * @example
 * ```js
 * uninstrument();
 * ```
 */
export function uninstrument(): void {
  current?.stop();
  current = undefined;
}
