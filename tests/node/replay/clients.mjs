// The set-ups of the other libraries' tests: one server, three, clusters, with the clients that they use.
import Redis from "ioredis";
import { createClient } from "redis";
import { Redlock } from "redlock-native";
import { Server } from "../helper.mjs";
import { after, before } from "../testing.mjs";

/** Servers for a suite: `all`, and a view of a key on each of them. */
export function serversForSuite(count, more = []) {
  const shared = { all: [] };
  before(async () => {
    shared.all = await Promise.all(Array.from({ length: count }, () => Server.start(more)));
    if (more.includes("--cluster-enabled")) await Promise.all(shared.all.map(allSlots));
  });
  after(() => Promise.all(shared.all.map((server) => server.stop())));
  shared.get = (key) => Promise.all(shared.all.map((server) => server.cli("GET", key)));
  shared.ttl = async (key) => {
    const left = await Promise.all(shared.all.map((server) => server.cli("PTTL", key)));
    return left.map(Number);
  };
  return shared;
}

/** A cluster of one server, which has every slot. */
export async function allSlots(server) {
  const slots = Array.from({ length: 16_384 }, (_, slot) => slot);
  await server.cli("CLUSTER", "ADDSLOTS", ...slots);
  for (;;) {
    const state = await server.cli("CLUSTER", "INFO");
    if (state.includes("cluster_state:ok")) return;
  }
}

/** Our client for their keys, made from the clients that they would receive. */
export const over = (theirs, options) =>
  Redlock.fromClient(theirs, { keyPrefix: "", restartGuard: 0, ...options });

export const ioredis = ({ port }) => new Redis({ port, lazyConnect: true });
export const nodeRedis = ({ port }) => createClient({ socket: { port } });
export const cluster = ({ port }) =>
  new Redis.Cluster([{ host: "127.0.0.1", port }], { lazyConnect: true });
