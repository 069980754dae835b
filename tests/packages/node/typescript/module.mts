// For the module settings that produce an ES module.
import { type Lease, Redlock } from "redlock-native";

const lease: Lease = await new Redlock("memory://").lock("job", { ttl: 1000 }).acquire();
console.log(lease.key, lease.held);
await lease.release();

// The types are seen, and are not any.
// @ts-expect-error a ttl is a number
export const wrong = () => new Redlock("memory://").lock("job", { ttl: "1000" });
