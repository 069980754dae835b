// The minimal Redis client that the demo's shop needs: one command at a time, simple replies.
import { once } from "node:events";
import { createConnection } from "node:net";

export function connect(url) {
  const { hostname, port } = new URL(url);
  const socket = createConnection(Number(port), hostname).setEncoding("utf8");

  async function send(...words) {
    const bulks = words.map((word) => `$${Buffer.byteLength(`${word}`)}\r\n${word}\r\n`);
    socket.write(`*${words.length}\r\n${bulks.join("")}`);
    const [reply] = await once(socket, "data");
    if (reply.startsWith("-")) throw new Error(reply.trim());
    const [head, body] = reply.split("\r\n");
    return head.startsWith("$") ? body : head.slice(1);
  }

  return { send, close: () => socket.end() };
}
