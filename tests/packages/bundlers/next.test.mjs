// The Next.js route handler of docs/how-to/web-frameworks.md, built by webpack and by Turbopack and started both ways, takes its
// locks. This is separate from the other tests because it downloads Next.js. Run `make test-bundlers`, which packs the
// package first.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redlock } from "../../../bindings-node/index.mjs";
import { eventually, freePort, Server } from "../../node/helper.mjs";
import { after, before, describe, test } from "../../node/testing.mjs";
import { installed, root, run } from "./place.mjs";

const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" };
/** The line of docs/reference/node-details.md. */
const LINE = 'serverExternalPackages: ["redlock-native"]';
let server;
let folder;
const running = [];
const leftovers = [];

before(async () => {
  server = await Server.start();
  folder = await installed("next/package.json");
});

after(async () => {
  for (const child of running) child.kill("SIGKILL");
  for (const each of [folder, ...leftovers]) await rm(each, { recursive: true, force: true });
  await server.stop();
});

/** Builds a project with the recipe. Returns its folder. */
async function built(bundler) {
  const place = join(folder, bundler);
  const handler = join(place, "app", "orders", "[number]");
  await mkdir(handler, { recursive: true });
  const page = await readFile(join(root, "docs", "how-to", "web-frameworks.md"), "utf8");
  const [, recipe] = /^```js route\.js\n(.*?)^```$/ms.exec(page);
  await writeFile(join(handler, "route.js"), recipe);
  const layout = fileURLToPath(new URL("next/layout.jsx", import.meta.url));
  await cp(layout, join(place, "app", "layout.jsx"));
  await writeFile(join(place, "package.json"), "{}");
  // The installed packages are beside the projects.
  const roots = `outputFileTracingRoot: "${folder}", turbopack: { root: "${folder}" }`;
  const config = `module.exports = { ${LINE}, output: "standalone", ${roots} };`;
  await writeFile(join(place, "next.config.js"), config);
  const next = join(folder, "node_modules", ".bin", "next");
  await run(next, ["build", `--${bundler}`], { cwd: place, env, timeout: 380_000 }).catch((error) =>
    assert.fail(`${error.stdout}${error.stderr}`),
  );
  return place;
}

/** Starts the built project, and takes locks through it. */
async function takesLocks(place, ...command) {
  const port = await freePort();
  const own = { ...env, REDIS_URL: server.url, PORT: String(port), HOSTNAME: "127.0.0.1" };
  const child = spawn(process.execPath, command, { cwd: place, env: own, stdio: "ignore" });
  running.push(child);
  const url = `http://127.0.0.1:${port}/orders/7`;
  const post = async () => {
    const answer = await fetch(url, { method: "POST", signal: AbortSignal.timeout(20_000) });
    return { status: answer.status, body: await answer.json() };
  };
  const taken = await eventually(post, 60_000);
  assert.deepEqual(taken, { status: 200, body: { number: "7", held: true } });
  const lease = await new Redlock(server.url).lock("order:7").acquire();
  assert.deepEqual(await post(), { status: 409, body: { error: "busy" } });
  await lease.release();
  assert.equal((await post()).status, 200);
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}

for (const bundler of ["webpack", "turbopack"]) {
  describe(`Next by ${bundler}`, () => {
    let place;
    before(async () => {
      place = await built(bundler);
    });

    test("next start", () =>
      takesLocks(place, join(folder, "node_modules", "next", "dist", "bin", "next"), "start"));

    test("the standalone output, which has the binary with it", async () => {
      const output = join(place, ".next", "standalone");
      const modules = await readdir(join(output, "node_modules"));
      assert.ok(
        modules.some((name) => name.startsWith("redlock-native-")),
        String(modules),
      );
      // Only the build, without a node_modules above it.
      const alone = await mkdtemp(join(tmpdir(), "redlock-next-alone-"));
      leftovers.push(alone);
      await cp(output, alone, { recursive: true, verbatimSymlinks: true });
      await takesLocks(alone, join(bundler, "server.js"));
    });
  });
}
