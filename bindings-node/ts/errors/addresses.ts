/**
 * Removes the addresses of nodes and the lines of the program from messages, because frameworks send error messages to
 * their users.
 */

import { shown } from "../native.js";

/** The result of one node. */
export type NodeState = "granted" | "held" | "kept" | "missing" | "free" | "fault" | "pending";

/** The report of one node. */
export interface NodeReport {
  /** The node's URL, without its password. */
  url: string;
  /**
   * `granted`, `held`, `kept` (released, and stays for `minHold`), `missing` (no key to extend or release), `free`,
   * `fault`, or `pending` if the round ended before the node replied.
   */
  state: NodeState;
  /** The text of the node's error. */
  error?: string;
}

/** A message without addresses, and the nodes, which keep them. */
export interface CleanMessage {
  message: string;
  nodes: NodeReport[];
}

/** Core lists the reports of the nodes after this text. */
const FAILED = / nodes? (?:has not )?failed(?=; )/;
/** An error that a node reports about the program's options. Its URL comes first. */
const OPTION_ERROR = /^((?:rediss?|unix|memory)[+a-z]*:\/\/\S*): (.*)$/s;
/**
 * Matches URLs, and hosts or IP addresses with a port. `redis://host:port` and `rediss://` alone are parts of an
 * explanation and `user_script:12` is a line of a script, so none of them matches.
 */
const ADDRESSES =
  /\b(?:rediss?|unix)[+a-z]*:\/\/(?!host(?![\w.@-])[^\s@]*(?:\s|$)|[,;)](?:\s|$)|\.(?:\s|$|\.(?!\/)))\S+|(?:\[[\da-f:.%]+\]|(?<![\w.-])(?!user_script:)[\w.-]+):\d{1,5}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b/gi;
/** Words before a host at the end of a sentence. */
const PREPOSITIONS = "to|at|from|host|reach|resolve|look up";

/**
 * Removes addresses from a message and numbers the nodes by their position. Error texts of a server may contain
 * addresses too.
 * @internal
 */
export function withoutAddresses(
  message: string,
  nodes: readonly NodeReport[],
  resource: string | undefined,
): CleanMessage {
  if (nodes.length > 0) {
    const head = FAILED.exec(message);
    const text = head ? message.slice(0, head.index + head[0].length) : "the nodes failed";
    const texts = nodes.map(({ error, state }) => replaceAddresses(error ?? state, nodes));
    const listed = texts.map((word, index) => `; node ${index + 1}: ${word}`);
    return { message: text + listed.join(""), nodes: [...nodes] };
  }
  // Messages contain the key on one line and shortened.
  const key = `${shown(resource ?? "")}: `;
  const [, url, error] =
    (message.startsWith(key) && OPTION_ERROR.exec(message.slice(key.length))) || [];
  if (url === undefined || error === undefined) return { message, nodes: [] };
  const node: NodeReport = { url, state: "fault", error };
  return {
    message: `${key}a node cannot be used: ${replaceAddresses(error, [node])}`,
    nodes: [node],
  };
}

/** Core ends the message of a timeout with the line that acquired the lock, after this text. */
const OWN_HOLDER = "; this client holds it";
const ACQUIRED_AT = ", acquired at ";

/**
 * Removes the line of the program that holds the lock from the message of a timeout. Also returns the line.
 * @internal
 */
export function withoutLine(message: string): { message: string; acquiredAt?: string } {
  // The last one, because a label may contain the text too.
  const at = message.lastIndexOf(OWN_HOLDER + ACQUIRED_AT);
  if (at < 0) return { message };
  const end = at + OWN_HOLDER.length;
  return { message: message.slice(0, end), acquiredAt: message.slice(end + ACQUIRED_AT.length) };
}

/** Replaces addresses, including hosts without a port. */
function replaceAddresses(text: string, nodes: readonly NodeReport[]): string {
  const addresses = new RegExp(
    [...nodes.flatMap(addressPatterns), ADDRESSES.source].join("|"),
    "gi",
  );
  return text.replace(addresses, "(address)");
}

/** Returns patterns for the path of a socket, or for the hosts of a URL. */
function addressPatterns({ url }: NodeReport): string[] {
  const [scheme = "", rest = ""] = url.split(/:\/\/|\?/);
  if (scheme === "unix") return rest.length > 3 ? [`(?:unix://)?${escaped(rest)}`] : [];
  const [hosts = ""] = rest.split("/");
  const names = hosts.split(",").map((host) => /^\[([^\]]+)\]|^[^:]+/.exec(host));
  return names.flatMap((found) => (found === null ? [] : [hostPattern(found[1] ?? found[0])]));
}

const escaped = (text: string) => text.replace(/\W/g, "\\$&");

/**
 * Returns a pattern that matches a host name. A name such as `failed` or `node` is also an ordinary word, so it only
 * matches where the text refers to a host.
 */
function hostPattern(host: string): string {
  const name = escaped(host);
  const port = String.raw`(?::\d{1,5}\b)?`;
  // A suffix that makes it a longer name.
  const longer = String.raw`(?:\.[\w-]+)`;
  if (!/^(?:[a-z_]+|\w{1,3})$/i.test(host)) {
    return String.raw`(?<![\w.-])[\w.-]*?${name}[\w-]*${longer}*${port}`;
  }
  const patterns = [
    String.raw`(?<=["'\`(])${name}(?=["'\`)])`,
    String.raw`(?<=@)${name}(?![\w-])`,
    `^${name}(?=:)`,
    String.raw`(?<=\b(?:${PREPOSITIONS}) )${name}(?=[.,;:)]|$)`,
    String.raw`(?<![\w.-])${name}${longer}+`,
  ];
  return `(?:${patterns.join("|")})${port}`;
}
