// Rolls the declarations that tsc wrote into one file per entry point. It keeps what the entry point exports and the
// declarations that those use, so that internal ones are not part of the published types.
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";

const IMPORT =
  /^(?:import|export)(?: type)? (?:\{([^}]*)\} from )?"(\.\.?\/[\w/-]+\.js|node:[\w/]+|@[\w/-]+)";$/;
const NAME =
  /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|function|const|let|enum|namespace) (\w+)/;

/** Splits the declarations of tsc or napi into its top-level statements, each with the comment above it. */
function statements(text) {
  const found = [];
  let [comment, code, inComment] = [[], [], false];
  for (const line of text.split("\n")) {
    if (code.length === 0 && (inComment || line.startsWith("/*") || line === "")) {
      // The comment at the top of a file may stand above that of its first declaration.
      if (line.startsWith("/*")) comment = [];
      if (line !== "") comment.push(line);
      inComment = (inComment || line.startsWith("/*")) && !line.endsWith("*/");
      continue;
    }
    if (line !== "") code.push(line);
    // Everything inside a statement is indented, so the next line that begins in the first column ends it. napi writes
    // no semicolons, but an empty line after each statement.
    const last = code.at(-1);
    if (/^\S/.test(last) && (line === "" ? !/[[({,]$/.test(last) : /[;}]$/.test(line))) {
      found.push({ comment: comment.join("\n"), code: code.join("\n") });
      [comment, code] = [[], []];
    }
  }
  if (code.length > 0) throw new Error(`a declaration does not end: ${code.join("\n")}`);
  return found;
}

/** The path of a module from the folder of the entry points, such as "./lock/lock.js". `file` imports it as `path`. */
function beside(file, path) {
  return `./${posix.join(posix.dirname(file), path)}`;
}

/** Reads the declarations of a module, and the module from which each other name comes. */
function moduleOf(folder, file) {
  const [declared, imported, exported, global] = [new Map(), new Map(), [], []];
  for (const { code, comment } of statements(
    readFileSync(join(folder, file.replace(/\.js$/, ".d.ts")), "utf8"),
  )) {
    const from = IMPORT.exec(code.replace(/\s+/g, " "));
    const name = NAME.exec(code)?.[1];
    if (from) {
      const source = from[2].startsWith(".") ? beside(file, from[2]) : from[2];
      const names = (from[1] ?? "").split(",").map((each) => each.replace(/^ ?type |\s/g, ""));
      for (const each of names.filter(Boolean)) {
        if (/ as /.test(from[1])) throw new Error(`a renamed import is not supported: ${code}`);
        imported.set(each, source);
        if (code.startsWith("export")) exported.push(each);
      }
    } else if (name !== undefined) {
      if (code.startsWith("export")) exported.push(name);
      const text = [comment, code.replace(/^export /, "")].filter(Boolean).join("\n");
      declared.set(name, [...(declared.get(name) ?? []), text]);
    } else if (code.startsWith("declare global")) {
      global.push([comment, code].filter(Boolean).join("\n"));
    } else if (code !== "export {};") {
      throw new Error(`an unknown kind of declaration in ${file}: ${code}`);
    }
  }
  return { declared, imported, exported, global };
}

/** The declarations of `entry`, such as "./index.js". Names from `external` and from Node.js are imported. */
export function rollup(folder, entry, external = []) {
  const modules = new Map();
  const load = (file) => {
    if (!modules.has(file)) modules.set(file, moduleOf(folder, file));
    return modules.get(file);
  };
  const [texts, origins, outside] = [[], new Map(), new Map()];
  const include = (name, from) => {
    const { declared, imported } = load(from);
    const source = imported.get(name);
    if (external.includes(source) || source?.startsWith("node:")) {
      outside.set(source, new Set(outside.get(source)).add(name));
      return;
    }
    if (source !== undefined) {
      include(name, source);
      return;
    }
    if (!declared.has(name)) throw new Error(`${from} does not declare ${name}`);
    if (origins.has(name)) {
      if (origins.get(name) === from) return;
      throw new Error(`${name} is declared in ${origins.get(name)} and in ${from}`);
    }
    origins.set(name, from);
    texts.push(...declared.get(name));
    const code = declared
      .get(name)
      .join("\n")
      .replace(/\/\*[\s\S]*?\*\//g, "");
    const used = new Set(code.match(/\b[A-Z]\w*\b/g));
    for (const each of used) if (declared.has(each) || imported.has(each)) include(each, from);
  };
  const { exported, global } = load(entry);
  for (const name of exported) include(name, entry);
  const imports = [...outside].map(
    ([source, names]) => `import type { ${[...names].sort().join(", ")} } from "${source}";`,
  );
  const names = [...new Set(exported)].sort();
  const list = `export {\n${names.map((name) => `  ${name},`).join("\n")}\n};`;
  return `${[...imports, ...texts, ...global, list].join("\n")}\n`;
}
