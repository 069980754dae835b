// The package in a separate context of V8, as test runners load it for each file.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { createContext, runInContext } from "node:vm";

const require = createRequire(import.meta.url);

/** A new context. It shares only Node.js and the binary with the rest of the process. */
export const newContext = () => createContext({ process, performance, AbortController });

/** Evaluates a file and those that it imports in a context. */
export function loadInContext(entry, context) {
  const loaded = new Map();
  const load = (file) => {
    if (loaded.has(file)) return loaded.get(file).exports;
    const module = { exports: {} };
    loaded.set(file, module);
    const next = (id) => {
      const place = id.startsWith(".") ? resolve(dirname(file), id) : id;
      return place.endsWith(".js") ? load(place) : require(place);
    };
    const text = `(function (exports, require, module) {${readFileSync(file, "utf8")}\n})`;
    runInContext(text, context, file)(module.exports, next, module);
    return module.exports;
  };
  return load(entry);
}
