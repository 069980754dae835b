import { Redlock } from "redlock-native";

const redlock = new Redlock("memory://");
redlock.using("job", (lease) => console.log(lease.key, lease.held));
