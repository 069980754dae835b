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
const FAILED = " nodes failed";
/** A node's own word on the program's options: its URL is before it. */
const TOLD = /^((?:rediss?|unix|memory)[+a-z]*:\/\/\S*): (.*)$/s;
/** URLs and whatever has a port, an address of either kind. `redis://host:port` is advice. */
const ADDRESSES =
  /\b(?:rediss?|unix)[+a-z]*:\/\/(?!host)\S+|(?:\[[\da-f:.%]+\]|[\w.-]+):\d{1,5}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b/gi;

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
    const at = message.indexOf(`${FAILED}; `);
    const text = at < 0 ? "the nodes failed" : message.slice(0, at + FAILED.length);
    const words = nodes.map(({ error, state }, place) => `; node ${place + 1}: ${error ?? state}`);
    return { message: text + words.map((word) => plain(word, nodes)).join(""), nodes: [...nodes] };
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
  const said = text.replace(ADDRESSES, "(address)");
  return nodes.flatMap(placesOf).reduce((rest, place) => rest.replaceAll(place, "(address)"), said);
}

/** A socket's path, or the hosts. */
function placesOf({ url }: Word): string[] {
  const [scheme = "", rest = ""] = url.split(/:\/\/|\?/);
  const [hosts = ""] = rest.split("/");
  const places = scheme === "unix" ? [rest] : hosts.split(",").map((host) => host.split(":")[0]);
  return places.filter((place) => place !== undefined && place.length > 3) as string[];
}
