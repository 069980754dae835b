// A folder with the recipes of docs/how-to, a server, and the programs that run there.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { eventually, Server } from "../../node/helper.mjs";
import { pageBlocks } from "../../node/page-blocks.mjs";

export const root = fileURLToPath(new URL("../../..", import.meta.url));
const here = fileURLToPath(new URL(".", import.meta.url));
const run = promisify(execFile);
/** The blocks with a file name, by that name. */
export const RECIPES = new Map(
  (await pageBlocks("how-to"))
    .filter(({ language, file }) => file && /^[jt]s$/.test(language))
    .map(({ file, code }) => [file, code]),
);

export class Workspace {
  static async make() {
    const workspace = new Workspace();
    workspace.server = await Server.start();
    workspace.folder = await mkdtemp(join(tmpdir(), "redlock-frameworks-"));
    for (const [name, text] of RECIPES) await writeFile(join(workspace.folder, name), text);
    await cp(join(here, "work.mjs"), join(workspace.folder, "work.mjs"));
    await writeFile(join(workspace.folder, "package.json"), '{ "type": "module" }');
    await symlink(join(here, "node_modules"), join(workspace.folder, "node_modules"));
    workspace.running = [];
    return workspace;
  }

  /** Starts a program there. Its output so far is in `said`. */
  start(file, env = {}) {
    const child = spawn(process.execPath, [file], {
      cwd: this.folder,
      env: { ...process.env, REDIS_URL: this.server.url, PORT: "0", ...env },
    });
    child.said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => (child.said += chunk));
    }
    child.ended = once(child, "exit");
    this.running.push(child);
    return child;
  }

  /** Starts a server there. Returns the URL it listens on. */
  async serve(file, env) {
    const child = this.start(file, env);
    const url = await eventually(() => {
      const [, port] = /listening on (\d+)/.exec(child.said) ?? assert.fail(child.said);
      return `http://127.0.0.1:${port}`;
    }, 30_000);
    return { child, url };
  }

  async compile(...files) {
    const types = ["--types", "node", "--typeRoots", join(root, "node_modules", "@types")];
    const how = ["--strict", "--allowJs", "--experimentalDecorators", "--skipLibCheck"];
    const kind = ["--module", "nodenext", "--target", "es2022", "--outDir", "out"];
    const tsc = join(root, "node_modules", ".bin", "tsc");
    await run(tsc, [...types, ...how, ...kind, ...files], { cwd: this.folder }).catch((error) =>
      assert.fail(error.stdout),
    );
  }

  /** Returns how many jobs ran at once, for each job. */
  async seen() {
    const seen = (await this.server.cli("LRANGE", "seen", 0, -1)).split("\n").filter(Boolean);
    return { most: Math.max(0, ...seen.map(Number)), count: seen.length };
  }

  locks() {
    return this.server.cli("KEYS", "lock:*");
  }

  async end() {
    for (const child of this.running) child.kill("SIGKILL");
    await Promise.all(this.running.map(({ ended }) => ended));
    await this.server.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Ends it as a service manager would. It must end in order and without a second signal. */
export async function ends(child, by = [0, null]) {
  child.kill("SIGTERM");
  assert.deepEqual(await child.ended, by, child.said);
}

export async function post(url, body) {
  const answer = await fetch(url, {
    method: "POST",
    headers: body ? { "content-type": "application/json" } : {},
    body: body && JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.json() };
}
