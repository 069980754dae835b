// The CommonJS build under its names: one copy of the package, whichever way it is loaded.
// First: it throws where the package cannot be loaded.
import "./index.mjs";
import testing from "./dist/testing.js";

export const { TestRedlock } = testing;
