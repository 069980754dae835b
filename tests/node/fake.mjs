// A server that behaves well until the command for which a row of vectors/replies.toml specifies a broken reply.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { parse } from "smol-toml";

const TABLE = new URL("../vectors/replies.toml", import.meta.url);
export const { reply: rows, attempt: attempts } = parse(readFileSync(TABLE, "utf8"));

/** Yields the arguments of one command after the other. */
async function* commands(socket) {
  let unread = Buffer.alloc(0);
  const chunks = socket[Symbol.asyncIterator]();
  const read = async (find) => {
    let end = find();
    while (end < 0 || end > unread.length) {
      const { value, done } = await chunks.next();
      if (done) return undefined;
      unread = Buffer.concat([unread, value]);
      end = find();
    }
    const text = unread.subarray(0, end).toString();
    unread = unread.subarray(end);
    return text;
  };
  const line = async () => Number((await read(() => unread.indexOf("\n") + 1 || -1))?.slice(1));
  for (let count = await line(); count > 0; count = await line()) {
    const words = [];
    while (words.length < count) {
      const length = await line();
      words.push((await read(() => length + 2))?.slice(0, -2));
    }
    yield words;
  }
}

/** The last element of a script's reply. */
function bulk(words) {
  const echo = words[4] ?? words[3] ?? "";
  return `$${echo.length}\r\n${echo}\r\n`;
}

async function say({ say, first = "", then }, words, socket) {
  const text = say.replace("{bulk}", bulk(words)).replace("{asked}", words.join(" "));
  socket.write(first + text);
  while (then === "again" && !socket.destroyed) {
    if (!socket.write(text.repeat(1000))) await once(socket, "drain");
  }
  if (then === "close") socket.end();
}

function validReply({ to }, words) {
  switch (words[0]) {
    case "HELLO":
      return to === "AUTH" ? "-NOPROTO unsupported protocol\r\n" : "%1\r\n$5\r\nproto\r\n:3\r\n";
    case "INFO":
      return "$0\r\n\r\n";
    case "SCRIPT":
      return "$2\r\nok\r\n";
    case "EVALSHA":
      return `*4\r\n:1\r\n:60000\r\n$0\r\n\r\n${bulk(words)}`;
    case "GETRANGE": // no owner, so the client sends the script
      return "$0\r\n\r\n";
    case "TIME":
      return "*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n";
    default:
      return "+OK\r\n";
  }
}

/** The server of a row. While `failing` is false, it grants every request. */
export class Fake {
  #server = createServer((socket) => this.#converse(socket).catch(() => socket.destroy()));
  #sockets = new Set();

  constructor(row, failing = true) {
    this.row = row;
    this.failing = failing;
  }

  async start() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `redis://user:s3cret-word@127.0.0.1:${this.#server.address().port}`;
    return this;
  }

  async #converse(socket) {
    this.#sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
    if (this.row.to === "connect" && this.failing) await say(this.row, [], socket);
    for await (const words of commands(socket)) {
      // The client checks this right when it connects. The rows apply to the later commands.
      const trial = words.some((word) => word.includes("redlock-rights"));
      if (words[0] === this.row.to && !trial && this.failing) {
        this.said = true;
        await say(this.row, words, socket);
      } else socket.write(validReply(this.row, words));
    }
  }

  async stop() {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
