-- KEYS: the lock keys. ARGV: token. Deletes only what is ours; returns {1, token} when all of it was,
-- else {0, token}.
local ours = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then ours = ours + redis.call('DEL', key) end
end
if ours == #KEYS then return {1, ARGV[1]} end
return {0, ARGV[1]}
