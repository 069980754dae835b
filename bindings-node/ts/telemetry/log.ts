/** Passes log events to the listeners of the program. */

import type { CoreEvent } from "../native.js";
import { ProgramListener } from "./listeners.js";

/** The importance of a log event. */
export type LogLevel = "error" | "warn" | "info" | "debug";

/** One log event. The page Log events and metrics of the documentation lists all of them. */
export interface LogEvent {
  /** The importance: `error`, `warn`, `info` or `debug`. */
  level: LogLevel;
  /** The topic: `redlock.acquire`, `redlock.lease`, `redlock.node` or `redlock.client`. */
  logger: string;
  /** The message with names in braces for the parts that differ. It is the same for all events of a kind. */
  event: string;
  /** The message, without the fields. */
  message: string;
  /** The fields, and the parts of the message that differ. Those that end in `_ms` are in ms. None has a secret. */
  fields: Record<string, string | number>;
}

/** Receives log events. */
export type LogListener = (event: LogEvent) => void;

/** The bits of a level and of the more important ones. Each topic has four bits. */
const LEVELS: Readonly<Record<LogLevel, number>> = { error: 1, warn: 3, info: 7, debug: 15 };
const TOPICS = ["acquire", "lease", "node", "client"] as const;
/** The topic of an event, without the name of the package. */
export type LogTopic = (typeof TOPICS)[number];

/** The levels, from the most to the least important. */
export const LOG_LEVELS: readonly string[] = Object.keys(LEVELS);

/** Returns the bits of this level and of the more important ones, for these topics. Core reads them, too. */
export function eventBits(level: LogLevel, topics: readonly LogTopic[] = TOPICS): number {
  return topics.reduce((bits, topic) => bits | (LEVELS[level] << (4 * TOPICS.indexOf(topic))), 0);
}

/** A listener and its least important level. */
interface Registered {
  readonly listener: ProgramListener<LogEvent>;
  readonly level: LogLevel;
}

const registered = new Set<Registered>();
const WARNINGS = eventBits("warn");
/** The events that the listeners want. */
let wanted = 0;

/** Returns the bits of the events that the listeners want. */
export const loggedEvents = (): number => wanted;

/** Whether a listener receives the warnings. */
export const logsWarnings = (): boolean => (wanted & WARNINGS) === WARNINGS;

/** Adds a listener for events of this level and of more important ones. The returned function removes it. */
export function addLogListener(listener: LogListener, level: LogLevel): () => void {
  // A new object, because the same function may be added twice.
  const added = { listener: new ProgramListener(listener, "onLog()"), level };
  const update = () => {
    wanted = [...registered].reduce((bits, each) => bits | eventBits(each.level), 0);
  };
  registered.add(added);
  update();
  return () => {
    registered.delete(added);
    update();
  };
}

const DROPPED =
  "{dropped} log events were dropped here: this thread or a listener of the log is too slow for them";

/** Passes an event of core to the listeners, and before it the number of those that were dropped. */
export function logCoreEvent(event: CoreEvent): void {
  if (registered.size === 0) return;
  const { level, topic, template, message, fields, dropped } = event;
  if (dropped > 0) logOwnEvent("warn", "client", DROPPED, { dropped });
  const logger = `redlock.${topic}`;
  notify({ level: level as LogLevel, logger, event: template, message, fields });
}

/** Passes an event of this package to the listeners. Names in braces stand for fields. */
export function logOwnEvent(
  level: LogLevel,
  topic: LogTopic,
  template: string,
  fields: LogEvent["fields"],
): void {
  if (registered.size === 0) return;
  const message = fillTemplate(template, fields);
  notify({ level, logger: `redlock.${topic}`, event: template, message, fields });
}

/** Replaces the names in braces by their fields. */
export function fillTemplate(template: string, fields: LogEvent["fields"]): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => String(fields[name]));
}

function notify(event: LogEvent): void {
  // A copy, because a listener may add or remove one.
  for (const each of [...registered]) {
    if (LEVELS[event.level] > LEVELS[each.level]) continue;
    // Separate objects, because a listener may change its own.
    each.listener.call({ ...event, fields: { ...event.fields } });
  }
}
