/** The options of a client. */

import type { AddressMap } from "./address-map.js";
import type { CredentialsSource } from "./credentials.js";

/** Options of a client. Times are in ms, rounded to whole numbers. */
export interface RedlockOptions {
  /** Prefix of every key. Default `lock:`. With an empty prefix the keys are shared with other libraries. */
  keyPrefix?: string | undefined;
  /** Timeout for the reply of one node, in ms. Default min(1,000, ttl / 5), or min(3,000, ttl / 3) with `fsync`. */
  nodeTimeout?: number | undefined;
  /** Timeout for connecting, in ms. Covers name lookup, TCP, TLS and login. Default 5,000. */
  connectTimeout?: number | undefined;
  /**
   * Maximum time without replies from a quorum of nodes, in ms, for an acquire without a `wait`. It then rejects with
   * `QuorumUnavailable`. Default 10,000.
   *
   * `null` sets no limit. While another client holds the lock, an acquire without a `wait` waits forever in any case.
   */
  unavailableAfter?: number | null | undefined;
  /**
   * With several nodes, a node that started more recently than this does not vote on new locks, and no TTL may exceed
   * it.
   *
   * In ms, default 60,000 with several nodes, otherwise 0. 0 turns it off. Use the same value on every client.
   */
  restartGuard?: number | undefined;
  /**
   * Number of replicas that must confirm a grant or renewal (`WAIT`) before the vote of their node counts. Default 0.
   */
  minReplicas?: number | undefined;
  /**
   * Whether a grant or renewal must be on disk (`WAITAOF`) before it counts. With `appendfsync everysec`, this
   * may take two seconds. Default false.
   */
  fsync?: boolean | undefined;
  /**
   * Certificates of CAs and servers to trust for `rediss://`, as the path of a PEM file or its bytes. Default: those
   * that Node.js trusts, with `NODE_EXTRA_CA_CERTS` and `--use-system-ca`.
   */
  tlsCa?: string | Uint8Array | undefined;
  /** Client certificate, as the path of a PEM file or its bytes. Needs `tlsKey`. Default none. */
  tlsCert?: string | Uint8Array | undefined;
  /** Private key of `tlsCert`, as the path of a PEM file or its bytes. */
  tlsKey?: string | Uint8Array | undefined;
  /** Name that the servers' certificates must contain, also sent as SNI. Default: the URL's host. */
  tlsServerName?: string | undefined;
  /**
   * Whether to verify the servers' certificates. Default true. With false the client accepts any server and sends it
   * the password, so use it only in a network that you fully control.
   */
  tlsVerify?: boolean | undefined;
  /** Connection name in the server's `CLIENT LIST` and log. No spaces. Default `redlock`. */
  clientName?: string | undefined;
  /**
   * Label of the locks that set none, which other clients show as the holder. `true` writes the host and the process.
   * Default none.
   */
  label?: string | boolean | undefined;
  /**
   * Callback, async or not, that returns a password or `{ username, password, lifetime }`. Default: the credentials in
   * the URLs.
   *
   * It is called at each connect, and on an open connection before the `lifetime` (ms) ends.
   */
  credentials?: CredentialsSource | undefined;
  /**
   * Where to connect to servers of `redis+sentinel://` and `redis+cluster://` that announce other addresses, such as
   * behind NAT or Docker. Default none.
   *
   * An object such as `{ "10.0.0.1:6379": "127.0.0.1:7001" }`, or a function `(host, port) => ({ host, port })`, async
   * or not, which is called at each connect. Addresses in URLs stay as they are.
   */
  addressMap?: AddressMap | undefined;
}
