-- KEYS: one lock key. Returns {the first 64 bytes of the owner's token, or nil; its ttl left: -1 for no end, -2 for
-- no key; the key}.
local owner = redis.call('GET', KEYS[1])
return {owner and string.sub(owner, 1, 64), redis.call('PTTL', KEYS[1]), KEYS[1]}
