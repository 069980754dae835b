/** The warnings of Node.js that this package emits. */

/** The name and code of the warnings. */
const KIND = { name: "RedlockWarning", code: "REDLOCK" };

/** Creates a warning. */
export function createWarning(text: string): Error & { code: string } {
  const warning = new Error(text) as Error & { code: string };
  // An assignment would throw if the program has frozen `Error.prototype`.
  for (const [name, value] of Object.entries(KIND)) {
    Object.defineProperty(warning, name, {
      value,
      configurable: true,
      enumerable: true,
      writable: true,
    });
  }
  return warning;
}

/** Emits a process warning. Throws what the program's `process.emitWarning` throws. */
export function emitProcessWarning(text: string): void {
  try {
    process.emitWarning(createWarning(text));
  } catch (thrown) {
    // In a sandbox, such as Jest's, `Error` is not the class that Node.js checks for.
    if ((thrown as NodeJS.ErrnoException | null)?.code !== "ERR_INVALID_ARG_TYPE") throw thrown;
    process.emitWarning(text, { type: KIND.name, code: KIND.code });
  }
}
