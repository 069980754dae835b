// Puts the binary that cargo built in place, with its loader and its types: node install.mjs BINARY TYPES. TYPES is the
// folder in which napi-derive wrote the type definitions. `npm run build:native` does the same after a build by napi.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generateTypeDef, parseTriple, readNapiConfig, writeJsBinding } from "@napi-rs/cli";

const [binary, typeDefDir] = process.argv.slice(2);
const root = fileURLToPath(new URL("..", import.meta.url));
const outputDir = join(root, "bindings-node", "dist");

const { binaryName, packageName, packageJson } = await readNapiConfig(join(root, "package.json"));
const [, host] = execFileSync("rustc", ["-vV"], { encoding: "utf8" }).match(/^host: (.*)$/m);
const addon = join(outputDir, `${binaryName}.${parseTriple(host).platformArchABI}.node`);

mkdirSync(outputDir, { recursive: true });
// A running process has the old file mapped. A copy over it would crash that process.
copyFileSync(binary, `${addon}.new`);
renameSync(`${addon}.new`, addon);

const { exports: idents, dts } = await generateTypeDef({
  typeDefDir,
  cwd: root,
  declareBindingTarget: true,
  // The enums of the rows exist at run time.
  constEnum: false,
});
writeFileSync(join(root, "bindings-node", "ts", "native.d.ts"), dts);
const loader = { platform: true, idents, jsBinding: "native.js", binaryName, packageName };
await writeJsBinding({ ...loader, version: packageJson.version, outputDir });
