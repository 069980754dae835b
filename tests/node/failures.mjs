// A reporter for scripts/test: a line of JSON for each test that failed or was slow, and one with the number of passed
// tests.

/** Minimum duration in milliseconds of a test that is reported as slow. */
const SLOW_MS = 500;

/** The error and its causes as text. */
function text(error) {
  const parts = [];
  for (let at = error; at !== undefined && at !== null; at = at.cause)
    parts.push(at.stack ?? `${at}`);
  return parts.join("\n");
}

export default async function* failures(source) {
  // Failed tests whose enclosing test or suite is not reported yet.
  let open = [];
  let passed = 0;
  for await (const { type, data } of source) {
    if (type !== "test:fail" && type !== "test:pass") continue;
    const { name, nesting, details } = data;
    if (details.error?.failureType === "subtestsFailed") {
      for (const failure of open) failure.names.unshift(name);
    } else if (type === "test:fail") {
      open.push({ names: [name], error: text(details.error) });
    }
    const counts = type === "test:pass" && details.type !== "suite" && data.skip === undefined;
    if (counts) passed += 1;
    if (nesting > 0) continue;
    for (const failure of open) yield `${JSON.stringify(failure)}\n`;
    open = [];
    if (details.duration_ms >= SLOW_MS)
      yield `${JSON.stringify({ names: [name], ms: details.duration_ms })}\n`;
  }
  yield `${JSON.stringify({ passed })}\n`;
}
