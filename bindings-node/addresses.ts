/** Messages without the addresses of nodes: frameworks send an error's message to whoever asked. */

import { shown } from "./native.js";

/** What one node had to say. */
interface Word {
  url: string;
  state: string;
  error?: string;
}

/** What a failure says for everybody, and its nodes, which keep their addresses. */
export interface Said {
  message: string;
  nodes: Word[];
}

/** Behind it core lists what each node said. */
const FAILED = / nodes? failed(?=; )/;
/** A node's own word on the program's options: its URL is before it. */
const TOLD = /^((?:rediss?|unix|memory)[+a-z]*:\/\/\S*): (.*)$/s;
/** URLs and whatever has a port, an address of either kind. `redis://host:port` is advice, `user_script:12` a script's line. */
const ADDRESSES =
  /\b(?:rediss?|unix)[+a-z]*:\/\/(?!host)\S+|(?:\[[\da-f:.%]+\]|(?<![\w.-])(?!user_script:)[\w.-]+):\d{1,5}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b/gi;
/** What a host comes after, at a sentence's end. */
const BEFORE = "to|at|from|host|reach|resolve|look up";

/**
 * Without addresses: nodes go by their place in the list. A server's own words may have addresses in them, too.
 * @internal
 */
export function withoutAddresses(
  message: string,
  nodes: readonly Word[],
  resource: string | undefined,
): Said {
  if (nodes.length > 0) {
    const head = FAILED.exec(message);
    const text = head ? message.slice(0, head.index + head[0].length) : "the nodes failed";
    const words = nodes.map(({ error, state }) => plain(error ?? state, nodes));
    const listed = words.map((word, place) => `; node ${place + 1}: ${word}`);
    return { message: text + listed.join(""), nodes: [...nodes] };
  }
  // As messages have it: on one line, and cut.
  const key = `${shown(resource ?? "")}: `;
  const [, url, error] = (message.startsWith(key) && TOLD.exec(message.slice(key.length))) || [];
  if (url === undefined || error === undefined) return { message, nodes: [] };
  const node = { url, state: "fault", error };
  return { message: `${key}a node cannot be used: ${plain(error, [node])}`, nodes: [node] };
}

/** A host may be named without its port. */
function plain(text: string, nodes: readonly Word[]): string {
  const places = new RegExp([...nodes.flatMap(placesOf), ADDRESSES.source].join("|"), "gi");
  return text.replace(places, "(address)");
}

/** A socket's path, or the hosts: as they stand in texts. */
function placesOf({ url }: Word): string[] {
  const [scheme = "", rest = ""] = url.split(/:\/\/|\?/);
  if (scheme === "unix") return rest.length > 3 ? [`(?:unix://)?${escaped(rest)}`] : [];
  const [hosts = ""] = rest.split("/");
  const names = hosts.split(",").map((host) => /^\[([^\]]+)\]|^[^:]+/.exec(host));
  return names.flatMap((found) => (found === null ? [] : [standing(found[1] ?? found[0])]));
}

const escaped = (text: string) => text.replace(/\W/g, "\\$&");

/** Where a text means the host: a name such as `failed` or `node` is a word of other texts, too. */
function standing(host: string): string {
  const name = escaped(host);
  const port = String.raw`(?::\d{1,5}\b)?`;
  // With what makes another name of it.
  const longer = String.raw`(?:\.[\w-]+)`;
  if (!/^(?:[a-z_]+|\w{1,3})$/i.test(host)) {
    return String.raw`(?<![\w.-])[\w.-]*?${name}[\w-]*${longer}*${port}`;
  }
  const ways = [
    String.raw`(?<=["'\`(])${name}(?=["'\`)])`,
    String.raw`(?<=@)${name}(?![\w-])`,
    `^${name}(?=:)`,
    String.raw`(?<=\b(?:${BEFORE}) )${name}(?=[.,;:)]|$)`,
    String.raw`(?<![\w.-])${name}${longer}+`,
  ];
  return `(?:${ways.join("|")})${port}`;
}
