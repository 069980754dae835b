// A temporary server for a benchmark, and a client that looks at its statistics.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

export async function startServer() {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "redlock-bench-"));
  const words = ["--port", port, "--dir", folder, "--save", "", "--bind", "127.0.0.1"];
  const process = spawn("redis-server", words.map(String), { stdio: "ignore" });
  const client = new Redis(port, "127.0.0.1", { retryStrategy: () => 50 });
  client.on("error", () => {});
  await client.ping();
  const stop = async () => {
    client.disconnect();
    process.kill();
    await once(process, "exit");
    rmSync(folder, { recursive: true });
  };
  return { port, client, stop };
}
