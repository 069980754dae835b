// `rediss://` against a real server with its own certificate authority: which certificates are trusted, and which are
// not.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import Redis from "ioredis";
import { createClient } from "redis";
import { configure, Redlock, withLock } from "redlock-native";
import { eventually, freePort, Server, uniqueName } from "./helper.mjs";
import { after, before, describe, test } from "./testing.mjs";

const run = promisify(execFile);
const warnings = [];
process.on("warning", (warning) => warnings.push(warning.message));
let folder;
let server;
let strict;

const file = (name) => join(folder, name);
const openssl = (line) => run("openssl", line.split(" "), { cwd: folder });

async function makeCertificates() {
  for (const ca of ["ca", "other-ca"]) {
    await openssl(
      `req -x509 -newkey rsa:2048 -nodes -keyout ${ca}.key -out ${ca}.crt -days 2 -subj /CN=${ca}`,
    );
  }
  const extensions = {
    server: "subjectAltName=DNS:redis.test,IP:127.0.0.1",
    client: "extendedKeyUsage=clientAuth",
  };
  for (const [name, extension] of Object.entries(extensions)) {
    await writeFile(file(`${name}.ext`), extension);
    await openssl(
      `req -newkey rsa:2048 -nodes -keyout ${name}.key -out ${name}.csr -subj /CN=${name}`,
    );
    const signed = `-CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out ${name}.crt -extfile ${name}.ext`;
    await openssl(`x509 -req -in ${name}.csr ${signed}`);
  }
  // As people make it: of a CA, and without a `subjectAltName`.
  await openssl("req -x509 -key server.key -out own.crt -subj /CN=redis");
  await openssl("pkcs8 -topk8 -v2 aes-256-cbc -passout pass:s3cret -in client.key -out locked.key");
  const ca = await readFile(file("ca.crt"), "utf8");
  await writeFile(file("wide.crt"), `\ufeff${ca}`, "utf16le");
  await writeFile(file("marked.crt"), `\ufeff${ca}`);
}

async function secured(authClients, certificate = "server.crt") {
  const port = await freePort();
  const flags = ["--tls-port", port, "--tls-auth-clients", authClients];
  const files = { "cert-file": certificate, "key-file": "server.key", "ca-cert-file": "ca.crt" };
  for (const [flag, name] of Object.entries(files)) flags.push(`--tls-${flag}`, file(name));
  const started = await Server.start(flags);
  return Object.assign(started, { tlsUrl: `rediss://127.0.0.1:${port}` });
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "redlock-files-"));
  await makeCertificates();
  [server, strict] = await Promise.all([secured("no"), secured("yes")]);
});

after(async () => {
  await Promise.all([server?.stop(), strict?.stop()]);
  await rm(folder, { recursive: true, force: true });
});

/** Acquires and releases a lock there. */
async function locks({ tlsUrl }, options) {
  const redlock = new Redlock(tlsUrl, options);
  const lease = await redlock.lock(uniqueName(), { wait: 20_000 }).acquire();
  await lease.release();
  redlock.close();
}

const unavailable = (word) => (error) => {
  assert.equal(error.name, "QuorumUnavailable");
  assert.equal(error.kind, "unavailable");
  assert.match(error.nodes[0].error, word);
  return true;
};

describe("rediss://", () => {
  test("a server with a certificate of tlsCa is trusted", () =>
    locks(server, { tlsCa: file("ca.crt") }));

  test("a server with another authority's certificate is rejected", async () => {
    await assert.rejects(
      locks(server, { tlsCa: file("other-ca.crt") }),
      unavailable(/Set tlsCa to its CA \(.*UnknownIssuer/),
    );
    await assert.rejects(locks(server), unavailable(/./));
  });

  test("a server that presents tlsCa itself is trusted", async () => {
    const own = await secured("no", "own.crt");
    try {
      await locks(own, { tlsCa: file("own.crt") });
      const made = /make another one with the CA: `openssl req .*`openssl x509 /;
      await assert.rejects(locks(own, { tlsCa: file("ca.crt") }), unavailable(made));
    } finally {
      await own.stop();
    }
  });

  test("an acquire without a wait does not wait for another certificate", async () => {
    const redlock = new Redlock(server.tlsUrl, { tlsCa: file("other-ca.crt") });
    // Otherwise it would end by the option, after 10 s.
    await assert.rejects(redlock.lock(uniqueName()).acquire(), (error) => {
      assert.doesNotMatch(error.message, /unavailableAfter/);
      return unavailable(/UnknownIssuer/)(error);
    });
    redlock.close();
  });

  test("the certificate must contain tlsServerName", async () => {
    const tlsCa = file("ca.crt");
    await locks(server, { tlsCa, tlsServerName: "redis.test" });
    const wrong = locks(server, { tlsCa, tlsServerName: "other.test" });
    await assert.rejects(wrong, unavailable(/Set tlsServerName to the expected name.*other\.test/));
  });

  test("certificates and keys can be passed as bytes", async () => {
    const tlsCa = await readFile(file("ca.crt"));
    await locks(server, { tlsCa });
    await locks(server, { tlsCa: new Uint8Array(tlsCa) });
    const other = { tlsCa: await readFile(file("other-ca.crt")) };
    await assert.rejects(locks(server, other), unavailable(/UnknownIssuer/));
    const [tlsCert, tlsKey] = [
      await readFile(file("client.crt")),
      await readFile(file("client.key")),
    ];
    await locks(strict, { tlsCa, tlsCert, tlsKey });
    await assert.rejects(locks(server, { tlsCa: Buffer.from(file("ca.crt")) }), {
      kind: "invalid",
      message: /^cannot use the bytes of tlsCa: .*Pass a path as text/,
    });
  });

  test("tlsCert and tlsKey authenticate the client", async () => {
    const tlsCa = file("ca.crt");
    await locks(strict, { tlsCa, tlsCert: file("client.crt"), tlsKey: file("client.key") });
    await assert.rejects(locks(strict, { tlsCa }), unavailable(/CertificateRequired/));
  });

  test("adopts servername and rejectUnauthorized of ioredis and node-redis", async () => {
    const port = Number(new URL(server.tlsUrl).port);
    const clients = (tls) => [
      new Redis({ host: "127.0.0.1", port, tls, lazyConnect: true }),
      createClient({ socket: { host: "127.0.0.1", port, tls: true, ...tls } }),
    ];
    const locked = async (theirs, options) => {
      const redlock = Redlock.fromClient(theirs, options);
      const lease = await redlock.lock(uniqueName(), { wait: 20_000 }).acquire();
      await lease.release();
      redlock.close();
    };
    const tlsCa = file("ca.crt");
    for (const theirs of clients({ servername: "redis.test" })) await locked(theirs, { tlsCa });
    for (const theirs of clients({ servername: "other.test" })) {
      await assert.rejects(locked(theirs, { tlsCa }), unavailable(/other\.test/));
    }
    for (const theirs of clients({ rejectUnauthorized: false })) await locked(theirs);
    for (const theirs of clients({})) await assert.rejects(locked(theirs), unavailable(/./));
  });

  test("tlsVerify: false accepts any certificate and warns once", async () => {
    // A separate server for the warnings, which no other client of this test trusts.
    const strangers = new Redlock(strict.tlsUrl, { tlsCa: file("other-ca.crt"), tlsVerify: true });
    await assert.rejects(strangers.lock(uniqueName(), { wait: 0 }).acquire(), {
      kind: "unavailable",
    });
    const own = { tlsCert: file("client.crt"), tlsKey: file("client.key") };
    const client = new Redlock(strict.tlsUrl, { tlsVerify: false, ...own });
    for (let times = 0; times < 3; times += 1) {
      await (await client.lock(uniqueName()).acquire()).release();
    }
    const words = ["tlsVerify is off", strict.tlsUrl];
    const said = () => warnings.filter((text) => words.every((word) => text.includes(word)));
    await eventually(() => assert.equal(said().length, 1, warnings.join("\n")));
    for (const made of [strangers, client]) made.close();
  });

  test("a byte-order mark at the start of a file is ignored", async () => {
    await locks(server, { tlsCa: file("marked.crt") });
    await locks(server, { tlsCa: await readFile(file("marked.crt")) });
  });

  test("configure accepts the TLS options", async () => {
    configure(server.tlsUrl, { tlsCa: file("ca.crt") });
    assert.equal(await withLock(uniqueName(), ({ held }) => held), true);
  });
});

test("unusable certificates and keys are rejected by the constructor", () => {
  const tlsCa = () => file("ca.crt");
  const bad = [
    [{ tlsCa: file("tls_ca.pem") }, /^cannot use tlsCa \(.*tls_ca\.pem/],
    [{ tlsCa: file("ca.key") }, /no PEM certificate/],
    [{ tlsCa: tlsCa(), tlsCert: file("client.crt") }, /tlsKey/],
    [{ tlsCa: tlsCa(), tlsKey: file("client.key") }, /tlsCert/],
    [{ tlsCa: tlsCa(), tlsCert: file("client.crt"), tlsKey: file("none.key") }, /none\.key/],
    [{ tlsCa: tlsCa(), tlsServerName: "no name" }, /not a name/],
    [
      { tlsCa: tlsCa(), tlsCert: file("client.crt"), tlsKey: file("ca.key") },
      /cannot use tlsKey \(.*ca\.key\): it is not the key of the first certificate in tlsCert/,
    ],
    [{ tlsCa: tlsCa(), tlsCert: file("client.crt"), tlsKey: file("locked.key") }, /encrypted/],
    [{ tlsCa: file("wide.crt") }, /UTF-16/],
    [{ tlsCa: 7 }, /tlsCa must be the path of a PEM file, or its bytes \(got 7\)/],
  ];
  for (const [options, message] of bad) {
    assert.throws(() => new Redlock(server.tlsUrl, options), { kind: "invalid", message });
  }
});
