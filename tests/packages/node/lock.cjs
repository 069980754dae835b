const { Redlock } = require("redlock-native");

new Redlock("memory://").using("job", { ttl: 1000 }, (lease) => console.log(lease.key, lease.held));
