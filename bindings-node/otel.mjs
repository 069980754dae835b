// Re-exports the CommonJS build by name, so that both ways of loading share one copy of the package. The index comes
// first, because it throws if the package cannot be loaded.
import "./index.mjs";
import otel from "./dist/otel.js";

export const { instrument, uninstrument } = otel;
