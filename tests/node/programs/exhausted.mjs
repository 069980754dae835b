// The first use if no file can be opened, or no thread started: URL files|threads.
import assert from "node:assert/strict";
import { closeSync, openSync } from "node:fs";
import { Redlock } from "redlock-native";

const [url, what] = process.argv.slice(2);

function allFiles() {
  const files = [];
  try {
    for (;;) files.push(openSync("/dev/null"));
  } catch (error) {
    assert.equal(error.code, "EMFILE");
    return files;
  }
}

/** Refused twice. */
async function refused(lock) {
  for (const use of [() => lock.acquire(), () => lock.acquire(), () => lock.inspect()]) {
    await assert.rejects(use(), (error) => {
      assert.equal(error.name, "QuorumUnavailable", String(error));
      assert.match(error.message, /os error/);
      return true;
    });
  }
}

const files = what === "files" ? allFiles() : [];
const lock = new Redlock(url).lock("job", { wait: 0 });
await refused(lock);
if (what === "files") {
  for (const file of files) closeSync(file);
  await (await lock.acquire()).release();
  const more = allFiles();
  // This client is connected now. Another client finds no descriptor for its connection.
  await refused(new Redlock(url).lock("job", { wait: 0 }));
  for (const file of more) closeSync(file);
}
console.log("as it should be");
