// Packs the packages for publishing into a folder (default dist/). One is the main package, and the others contain the
// binary of each platform that bindings-node/dist has. npm installs the matching one as an optional dependency.
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const binaries = join(root, "bindings-node", "dist");
// The napi command line only writes inside the project. Git ignores this folder.
const scratch = join(root, "bindings-node", "npm");
const licenses = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES"];
const target = resolve(process.argv[2] ?? join(root, "dist"));
const npmCommand = process.platform === "win32" ? "npm.cmd" : "npm";

const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

function pack(folder, destination) {
  const args = ["pack", "--silent", "--pack-destination", destination];
  const options = { cwd: folder, encoding: "utf8", shell: process.platform === "win32" };
  return join(destination, execFileSync(npmCommand, args, options).trim().split("\n").at(-1));
}

/** Packs each platform package whose binary was built. Returns their names and versions. */
function packPlatforms() {
  const cli = join(root, "node_modules", "@napi-rs", "cli", "dist", "cli.js");
  const args = [cli, "create-npm-dirs", "--npm-dir", "bindings-node/npm"];
  execFileSync(process.execPath, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  const packed = {};
  for (const platform of readdirSync(scratch)) {
    const folder = join(scratch, platform);
    const manifest = readJson(join(folder, "package.json"));
    const { name, version, main, files } = manifest;
    if (!existsSync(join(binaries, main))) continue;
    copyFileSync(join(binaries, main), join(folder, main));
    for (const license of licenses) copyFileSync(join(root, license), join(folder, license));
    const published = { ...manifest, type: "commonjs", files: [...files, ...licenses] };
    writeJson(join(folder, "package.json"), published);
    console.log(pack(folder, target));
    packed[name] = version;
  }
  return packed;
}

/** Packs the main package as npm does. Adds the platform packages and removes what only development needs. */
function packMain(platforms) {
  execFileSync("tar", ["-xzf", pack(root, scratch), "-C", scratch]);
  const file = join(scratch, "package", "package.json");
  const { devDependencies, scripts, napi, ...published } = readJson(file);
  writeJson(file, { ...published, optionalDependencies: platforms });
  // The repository's README begins with Python.
  copyFileSync(join(root, "bindings-node", "README.md"), join(scratch, "package", "README.md"));
  console.log(pack(join(scratch, "package"), target));
}

mkdirSync(target, { recursive: true });
rmSync(scratch, { recursive: true, force: true });
try {
  const platforms = packPlatforms();
  if (Object.keys(platforms).length === 0)
    throw new Error("no binary was built. Run npm run build first");
  packMain(platforms);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
