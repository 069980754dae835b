// Bundles the package into one file, because loading forty files takes Node.js twice as long as evaluating their
// content. The native part and the testing module stay separate. The single modules are kept for their types and for
// their tests.
import { copyFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Files beside the bundle, which stay separate. A module in a folder imports them by another path. */
const separate = { "native.js": "./native.js", "package.json": "../../package.json" };
const keepSeparate = {
  name: "separate",
  setup({ onResolve }) {
    onResolve({ filter: /\/(native\.js|package\.json)$/ }, ({ path }) => ({
      path: separate[path.split("/").at(-1)],
      external: true,
    }));
  },
};

copyFileSync(here("ts/native.d.ts"), here("dist/native.d.ts"));
const { outputFiles } = await build({
  entryPoints: [here("ts/index.ts")],
  outfile: here("dist/index.js"),
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  plugins: [keepSeparate],
  logLevel: "warning",
  write: false,
});
// esbuild renames a class that refers to itself to `_Redlock`. Stacks and "cannot be invoked without 'new'" show that
// name.
const [{ path, text }] = outputFiles;
const inner = [...text.matchAll(/\bclass (_(\w+))\b/g)];
const named = inner.reduce(
  (all, [, from, to]) => all.replaceAll(new RegExp(`\\b${from}\\b`, "g"), to),
  text,
);
writeFileSync(path, named);
