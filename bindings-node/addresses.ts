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

/** How core lists what each node said. */
const FAILED = " nodes failed";
/** A node's own word on the program's options: its URL is before it. */
const TOLD = /^((?:rediss?|unix|memory)[+a-z]*:\/\/\S*): (.*)$/s;
/** Of one node in the words of another; `redis://host:port` is advice. */
const URLS = /\b(?:rediss?|unix)[+a-z]*:\/\/(?!host)\S+/g;

/**
 * Without addresses. What nodes say is in `nodes` alone: a server's own words may have an address in them, too.
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
    return { message: `${text}: see the error's nodes`, nodes: [...nodes] };
  }
  // As messages have it: on one line, and cut.
  const key = `${shown(resource ?? "")}: `;
  const [, url, error] = (message.startsWith(key) && TOLD.exec(message.slice(key.length))) || [];
  if (url === undefined || error === undefined) return { message, nodes: [] };
  const rule = error.replace(URLS, "another one");
  return {
    message: `${key}a node cannot be used: ${rule}`,
    nodes: [{ url, state: "fault", error }],
  };
}
