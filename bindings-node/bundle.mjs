// The package as one file: to load forty costs Node twice as long as all that is in them. The native part and what tests of
// programs use stay files of their own, and so do the modules, for types and for the tests of single ones.
import { copyFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

copyFileSync(here("native.d.ts"), here("dist/native.d.ts"));
const { outputFiles } = buildSync({
  entryPoints: [here("index.ts")],
  outfile: here("dist/index.js"),
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["./native.js", "../../package.json"],
  logLevel: "warning",
  write: false,
});
// A class that names itself is `_Redlock` inside; stacks and "cannot be invoked without 'new'" show that name.
const [{ path, text }] = outputFiles;
const inner = [...text.matchAll(/\bclass (_(\w+))\b/g)];
const named = inner.reduce(
  (all, [, from, to]) => all.replaceAll(new RegExp(`\\b${from}\\b`, "g"), to),
  text,
);
writeFileSync(path, named);
