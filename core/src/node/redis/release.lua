-- KEYS: the lock keys. ARGV: token. Deletes only what is ours; returns {1, token} when all of it was,
-- else {0, token}.
local token = ARGV[1]
if #KEYS == 1 then
  if redis.call('GET', KEYS[1]) == token then return {redis.call('DEL', KEYS[1]), token} end
  return {0, token}
end
--@values
local ours = {}
for i, owner in ipairs(values(1, #KEYS)) do
  if owner == token then ours[#ours + 1] = KEYS[i] end
end
if #ours > 0 then redis.call('DEL', unpack(ours)) end
return {#ours == #KEYS and 1 or 0, token}
