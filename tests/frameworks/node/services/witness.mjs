// Receives the reports of every holder, and detects two holders of one name.

import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

export class Witness {
  static async listen() {
    const witness = new Witness();
    witness.server = createServer((socket) => witness.#hear(socket)).listen(0, "127.0.0.1");
    await once(witness.server, "listening");
    return witness;
  }

  constructor() {
    this.sockets = new Set();
    /** By process: its kind, and the tokens that it has held. */
    this.processes = new Map();
    /** By token: the name, and the time during which it was certainly held. */
    this.holds = new Map();
    this.counts = {};
    this.troubles = [];
  }

  get port() {
    return this.server.address().port;
  }

  #hear(socket) {
    this.sockets.add(socket.on("error", () => undefined));
    let pid;
    socket.on("close", () => {
      this.sockets.delete(socket);
      this.processes.delete(pid);
    });
    createInterface({ input: socket }).on("line", (line) => {
      const [word, ...rest] = line.split(" ");
      this.counts[word] = (this.counts[word] ?? 0) + 1;
      if (word === "hello") {
        pid = Number(rest[0]);
        this.processes.set(pid, { kind: rest[1], tokens: new Set() });
      } else if (word === "in") this.#begins(pid, ...rest);
      else if (word === "at") this.#goesOn(...rest);
      else if (word === "hang" || word === "error") this.troubles.push(line);
    });
  }

  #begins(pid, name, token, moment) {
    this.processes.get(pid)?.tokens.add(token);
    this.holds.set(token, { name, pid, from: Number(moment), to: Number(moment) });
  }

  #goesOn(_name, token, moment) {
    const hold = this.holds.get(token);
    // A line that was cut off by its process's death has no number at its end.
    if (hold && /^\d+$/.test(moment)) hold.to = Math.max(hold.to, Number(moment));
  }

  /** Pairs of holds of one name that overlap. */
  overlaps() {
    const found = [];
    const byName = grouped(this.holds);
    for (const holds of Object.values(byName)) {
      holds.sort((one, other) => one.from - other.from);
      let last = holds[0];
      for (const hold of holds.slice(1)) {
        if (hold.from <= last.to) found.push([last, hold]);
        if (hold.to > last.to) last = hold;
      }
    }
    return found;
  }

  /** The longest time without a granted lock, in ms. */
  longestGap() {
    const begun = [...this.holds.values()]
      .map(({ from }) => from)
      .sort((one, other) => one - other);
    return Math.max(0, ...begun.slice(1).map((moment, at) => moment - begun[at])) / 1_000;
  }

  close() {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}

function grouped(holds) {
  const byName = {};
  for (const hold of holds.values()) {
    byName[hold.name] ??= [];
    byName[hold.name].push(hold);
  }
  return byName;
}
