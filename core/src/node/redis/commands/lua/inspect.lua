-- KEYS: one lock key. Returns {the first 128 bytes of its value or nil, the remaining TTL, the key}. The TTL is -1
-- without an end, and -2 without a key.
local owner = redis.call('GET', KEYS[1])
return {owner and string.sub(owner, 1, 128), redis.call('PTTL', KEYS[1]), KEYS[1]}
