// Packs the packages for publishing into a folder (default dist/). One is the main package, and the others contain the
// binary of each platform that bindings-node/dist has. npm installs the matching one as an optional dependency.
//
// The main package is flat: one file and its types for each entry point, and the two files that load the binary. With
// `--dry-run` as the second argument, npm only lists what it would pack.
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
import { rollup } from "./rollup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const binaries = join(root, "bindings-node", "dist");
// The napi command line only writes inside the project. Git ignores this folder.
const scratch = join(root, "bindings-node", "npm");
const licenses = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES"];
/** What the binary contains, as CycloneDX. scripts/licenses writes it. */
const sbom = "sbom.cdx.json";
const dryRun = process.argv[3] === "--dry-run";
const target = resolve(process.argv[2] ?? join(root, "dist"));
const npmCommand = process.platform === "win32" ? "npm.cmd" : "npm";

const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

function pack(folder, destination) {
  const options = { cwd: folder, encoding: "utf8", shell: process.platform === "win32" };
  if (dryRun) {
    execFileSync(npmCommand, ["pack", "--dry-run"], { ...options, stdio: "inherit" });
    return `${folder}: not packed`;
  }
  const args = ["pack", "--silent", "--pack-destination", destination];
  return join(destination, execFileSync(npmCommand, args, options).trim().split("\n").at(-1));
}

/** Packs each platform package whose binary was built. Returns their names and versions. */
function packPlatforms() {
  const cli = join(root, "node_modules", "@napi-rs", "cli", "dist", "cli.js");
  const args = [cli, "create-npm-dirs", "--npm-dir", "bindings-node/npm"];
  // Its log lists every platform, also those that are not packed. On a failure the exception contains it.
  execFileSync(process.execPath, args, { cwd: root, stdio: "pipe" });
  const packed = {};
  for (const platform of readdirSync(scratch)) {
    const folder = join(scratch, platform);
    const manifest = readJson(join(folder, "package.json"));
    const { name, version, main, files } = manifest;
    if (!existsSync(join(binaries, main))) continue;
    copyFileSync(join(binaries, main), join(folder, main));
    for (const license of licenses) copyFileSync(join(root, license), join(folder, license));
    copyFileSync(join(root, "bindings-node", sbom), join(folder, sbom));
    const { publishConfig } = readJson(join(root, "package.json"));
    const listed = [...files, ...licenses, sbom];
    const published = { ...manifest, type: "commonjs", files: listed, publishConfig };
    writeJson(join(folder, "package.json"), published);
    console.log(pack(folder, target));
    packed[name] = version;
  }
  return packed;
}

/** Reads a built file, and rewrites paths for a package whose files are all in one folder. */
function flat(file, paths) {
  let text = readFileSync(join(root, "bindings-node", file), "utf8");
  for (const [from, to] of Object.entries(paths)) {
    if (!text.includes(from)) throw new Error(`${file} does not refer to ${from}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

/** The files of the main package, apart from its manifest. */
const mainFiles = () => ({
  "index.js": flat("dist/index.js", { "../../package.json": "./package.json" }),
  "index.mjs": flat("index.mjs", { "./dist/": "./" }),
  "index.d.ts": rollup(binaries, "./index.js"),
  "index.d.mts": flat("index.d.mts", { "./dist/": "./" }),
  "testing.js": flat("dist/testing.js", {}),
  "testing.mjs": flat("testing.mjs", { "./dist/": "./" }),
  "testing.d.ts": rollup(binaries, "./testing.js", ["./index.js"]),
  "testing.d.mts": flat("testing.d.mts", { "./dist/": "./" }),
  "otel.js": flat("dist/otel.js", {}),
  "otel.mjs": flat("otel.mjs", { "./dist/": "./" }),
  "otel.d.ts": rollup(binaries, "./otel.js", ["./index.js", "@opentelemetry/api"]),
  "otel.d.mts": flat("otel.d.mts", { "./dist/": "./" }),
  "loaded.js": flat("dist/loaded.js", {}),
  "native.js": flat("dist/native.js", {}),
  "command-line.mjs": flat("command-line.mjs", { "./dist/": "./" }),
  "README.md": flat("README.md", {}),
});

/** The manifest of the main package: that of this tree without what only development needs, and with flat paths. */
function mainManifest(files, platforms) {
  const { devDependencies, scripts, napi, typesVersions, ...manifest } = readJson(
    join(root, "package.json"),
  );
  const exported = (name) => ({
    import: { types: `./${name}.d.mts`, default: `./${name}.mjs` },
    require: { types: `./${name}.d.ts`, default: `./${name}.js` },
  });
  const published = {
    ...manifest,
    bin: { redlock: "./command-line.mjs" },
    main: "./index.js",
    types: "./index.d.ts",
    // In this tree, one of the modules is imported only for its effects. Here they are bundled.
    sideEffects: false,
    exports: {
      ".": exported("index"),
      "./testing": exported("testing"),
      "./otel": exported("otel"),
      "./package.json": "./package.json",
    },
    files: [...files, ...licenses].filter((name) => name !== "README.md"),
    optionalDependencies: platforms,
  };
  // A new entry point has to be added here, too.
  if (String(Object.keys(published.exports)) !== String(Object.keys(manifest.exports)))
    throw new Error(`package.json exports other entry points: ${Object.keys(manifest.exports)}`);
  return published;
}

/** Packs the main package, with the platform packages as optional dependencies. */
function packMain(platforms) {
  const folder = join(scratch, "package");
  mkdirSync(folder);
  const files = mainFiles();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  for (const license of licenses) copyFileSync(join(root, license), join(folder, license));
  writeJson(join(folder, "package.json"), mainManifest(Object.keys(files), platforms));
  console.log(pack(folder, target));
}

mkdirSync(target, { recursive: true });
rmSync(scratch, { recursive: true, force: true });
try {
  const platforms = packPlatforms();
  if (Object.keys(platforms).length === 0)
    throw new Error("no binary was built. Run npm run build:native first");
  packMain(platforms);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
