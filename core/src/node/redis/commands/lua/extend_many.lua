-- KEYS: lock keys of different leases. ARGV: the token and the TTL in ms for each key. Never creates a key and never
-- shortens a TTL.
-- Returns the token of each key, or nil if the key is not simply ours. extend.lua then determines the result.
-- Returns an error and writes nothing if the server has no GT (before Redis 7).
-- Reads all keys at once. Before Redis 7.2, each read in a script takes time proportional to the script's keys.
local owners, answers = redis.call('MGET', unpack(KEYS)), {}
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  answers[i] = owners[i] == token and token
  -- NX handles keys without a TTL, which GT ignores.
  if answers[i] and redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
end
-- Tracks the keys. Must follow the script's own writes, which would end the tracking.
redis.call('EXISTS', unpack(KEYS))
return answers
