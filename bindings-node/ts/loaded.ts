/**
 * Holds the package, or the error of loading it, for `index.mjs`.
 *
 * If an ES module imports a CommonJS module that throws, Node.js 20 ends the process, even if the program catches the
 * exception. An ES module may throw.
 */

let loaded: typeof import("./index.js") | undefined;
let thrown: unknown;
try {
  loaded = require("./index.js") as typeof import("./index.js");
} catch (error) {
  thrown = error;
}

export { loaded, thrown };
