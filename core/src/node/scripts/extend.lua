-- KEYS: the lock keys. ARGV: token, ttl in ms. Never creates and never shortens.
-- Returns {1, token} when all keys are ours, {0, token} when one is missing, {-1, token} when another has one.
local missing = false
for _, key in ipairs(KEYS) do
  local owner = redis.call('GET', key)
  if not owner then missing = true elseif owner ~= ARGV[1] then return {-1, ARGV[1]} end
end
if missing then return {0, ARGV[1]} end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
end
for _, key in ipairs(KEYS) do redis.call('PTTL', key) end
return {1, ARGV[1]}
