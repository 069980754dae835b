-- KEYS: one lock key. Returns {owner's token or nil, its ttl left: -1 for no end, -2 for no key, the key}.
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), KEYS[1]}
