#!/usr/bin/env node
// Runs the command line `redlock`, as `npx redlock`, and ends the process with its status.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
// First, because it explains why a binary cannot be loaded.
require("./dist/index.js");
require("./dist/native.js").commandLine(process.argv.slice(1));
