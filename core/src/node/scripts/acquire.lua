-- KEYS: the lock keys. ARGV: token, ttl in ms. All keys or none; safe to run twice with one token.
-- Returns {1, ttl left, token} when granted; {0, ttl left or -1 for no end, token} when another has it.
-- Every script's answer ends with what it was asked for: an answer to another question is noticed.
local left
for _, key in ipairs(KEYS) do
  local owner = redis.call('GET', key)
  if owner and owner ~= ARGV[1] then
    local ttl = redis.call('PTTL', key)
    if not left or ttl == -1 or (left ~= -1 and ttl > left) then left = ttl end
  end
end
if left then return {0, left, ARGV[1]} end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
end
-- The tracked read comes after the write: read first, the writer would never be told of a change.
for _, key in ipairs(KEYS) do left = redis.call('PTTL', key) end
return {1, left, ARGV[1]}
