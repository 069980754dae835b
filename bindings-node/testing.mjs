// The CommonJS build under its names: one copy of the package, whichever way it is loaded.
import testing from "./dist/testing.js";

export const { TestRedlock } = testing;
