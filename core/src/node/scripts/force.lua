-- KEYS: lock keys. Deletes them whoever has them. Returns {how many there were, the first key}.
return {redis.call('DEL', unpack(KEYS)), KEYS[1]}
