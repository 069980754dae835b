// Which certificates are trusted without `tlsCa`: those that this Node.js trusts, also where the system has none.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort, program, Server } from "./helper.mjs";
import { after, before, describe, test } from "./testing.mjs";

const run = promisify(execFile);
/** A system without certificates, as in a slim container image. */
const SLIM = {
  SSL_CERT_FILE: "/nonexistent/cert.pem",
  SSL_CERT_DIR: "/nonexistent",
  NODE_EXTRA_CA_CERTS: "",
};
let folder;
let server;
let url;

const file = (name) => join(folder, name);
const openssl = (line) => run("openssl", line.split(" "), { cwd: folder });

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "redlock-trust-"));
  await openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=ca");
  await writeFile(file("server.ext"), "subjectAltName=IP:127.0.0.1");
  await openssl("req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server");
  await openssl(
    "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -extfile server.ext",
  );
  const port = await freePort();
  const flags = ["--tls-port", port, "--tls-auth-clients", "no"];
  const files = { "cert-file": "server.crt", "key-file": "server.key", "ca-cert-file": "ca.crt" };
  for (const [flag, name] of Object.entries(files)) flags.push(`--tls-${flag}`, file(name));
  server = await Server.start(flags);
  url = `rediss://127.0.0.1:${port}`;
});

after(async () => {
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** What a client and the default client say in such a process. */
async function said(env, flags = []) {
  const { lines, stderr } = await program("trusts", [url], { env, flags });
  assert.equal(lines.length, 2, stderr);
  return lines;
}

async function assertTrusted(env, flags) {
  assert.deepEqual(await said(env, flags), ["trusted", "trusted"]);
}

async function assertRefused(env, flags) {
  for (const line of await said(env, flags)) assert.match(line, /^unavailable: .*UnknownIssuer/);
}

describe("without tlsCa", () => {
  test("a system without certificates needs none", () => assertRefused(SLIM));

  test("NODE_EXTRA_CA_CERTS is trusted", async () => {
    await assertTrusted({ ...SLIM, NODE_EXTRA_CA_CERTS: file("ca.crt") });
    await assertRefused({ ...SLIM, NODE_EXTRA_CA_CERTS: "/nonexistent" });
  });

  test("the certificates of the system are trusted with --use-openssl-ca only", async () => {
    const system = { ...SLIM, SSL_CERT_FILE: file("ca.crt") };
    await assertRefused(system);
    await assertTrusted(system, ["--use-openssl-ca"]);
    await assertTrusted({ ...system, NODE_OPTIONS: "--use-openssl-ca" });
  });

  // Node.js 20 does not have the flag.
  if (process.allowedNodeEnvironmentFlags.has("--use-system-ca")) {
    test("the certificates of the system are trusted with --use-system-ca", () =>
      assertTrusted({ ...SLIM, SSL_CERT_FILE: file("ca.crt") }, ["--use-system-ca"]));
  }
});
