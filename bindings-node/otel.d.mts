export * from "./dist/otel.js";
