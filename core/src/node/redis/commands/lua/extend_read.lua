-- Extends a reader. KEYS: the lock key, the set of readers. ARGV: the token and the TTL in ms. Never creates a lock and
-- never shortens one. Always writes, so that WAIT covers it. Safe to run twice. Returns the token if it is a reader,
-- {0, token} if it is not or if the key is missing or only remains, and {-1, token} if another owner has the key. A key
-- of another type belongs to another client.
local key, readers, token, ttl = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local owner = redis.pcall('GET', key)
if type(owner) == 'table' then
  if string.find(owner.err, '^%-?WRONGTYPE') then return {-1, token} end
  return owner
end
if not owner or string.sub(owner, 1, 5) == 'kept:' then return {0, token} end
if string.sub(owner, 1, 7) ~= 'shared:' then return {-1, token} end
local time = redis.call('TIME')
local last = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
-- Only reads the set if it must. Each read of it would cost a push at its next change.
if redis.call('ZADD', readers, 'XX', 'GT', 'CH', string.format('%.0f', last), token) == 0
  and not redis.call('ZSCORE', readers, token) then
  return {0, token}
end
local left = redis.call('PTTL', key)
if left < ttl then
  left = ttl + math.min(math.floor(ttl / 10), 1000)
  redis.call('PEXPIRE', key, left)
end
redis.call('PEXPIRE', readers, left)
redis.call('PTTL', key)
return token
