import { Redlock } from "redlock-native";

const lease = await new Redlock("memory://").lock("job", { ttl: 1000 }).acquire();
console.log(lease.key, lease.held);
await lease.release();
