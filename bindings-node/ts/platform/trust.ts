/** The certificates that this Node.js trusts, for `rediss://` nodes without `tlsCa`. */

import { readFileSync } from "node:fs";

// Bundled, a default import would create an object that keeps the whole context of the first copy of the package.
import tls = require("node:tls");

/** Certificates to trust, as the native part reads them. */
export interface Trust {
  /** In PEM. Without any, those of the system are trusted. */
  roots: Uint8Array;
  /** Whether those of the system are trusted too. */
  withSystem: boolean;
}

/** Since Node.js 22.15 and 23.10. */
type WithDefaults = typeof tls & { getCACertificates?: (type: "default") => string[] };

/**
 * Returns what `tls.connect` would trust, or `undefined` if no node uses TLS.
 *
 * That is not what the system trusts: a slim container image has no certificates, and Node.js brings its own.
 */
export function defaultTrust(...urls: (string | undefined)[]): Trust | undefined {
  if (!urls.some((url) => url !== undefined && /rediss|valkeys/i.test(url))) return undefined;
  const { getCACertificates } = tls as WithDefaults;
  const openssl = hasFlag("--use-openssl-ca");
  if (typeof getCACertificates === "function")
    return toTrust(getCACertificates("default"), openssl);
  const own = openssl ? [] : (tls.rootCertificates ?? []);
  return toTrust([...own, extraCertificates()], openssl || hasFlag("--use-system-ca"));
}

function toTrust(certificates: readonly string[], withSystem: boolean): Trust {
  return { roots: Buffer.from(certificates.join("\n")), withSystem };
}

/** The certificates of `NODE_EXTRA_CA_CERTS`. Node.js itself warns of a file that it cannot read. */
function extraCertificates(): string {
  const path = process.env.NODE_EXTRA_CA_CERTS;
  try {
    return path ? readFileSync(path, "utf8") : "";
  } catch {
    return "";
  }
}

/** Whether Node.js was started with this flag. */
function hasFlag(flag: string): boolean {
  const flags = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? "").split(/\s+/)];
  return flags.includes(flag);
}
