-- KEYS: the lock keys. ARGV: token; where they are to stay: for how many ms at most. Deletes only what is ours, or makes
-- it nobody's and has it live no longer than that, and never longer than it would; returns the token when all of it was,
-- else {0, token}. A key of another type is not ours. A table costs the server as much as half of the rest: Redis looks for seven names in it.
local token, stay = ARGV[1], ARGV[2]
if #KEYS == 1 and not stay then
  local key = KEYS[1]
  local owner = redis.pcall('GET', key)
  if owner == token and redis.call('DEL', key) == 1 then return token end
  if type(owner) == 'table' and not string.find(owner.err, '^%-?WRONGTYPE') then return owner end
  return {0, token}
end
--@values
local ours = {}
for i, owner in ipairs(values(1, #KEYS, true)) do
  if owner == token then ours[#ours + 1] = KEYS[i] end
end
if #ours > 0 and not stay then redis.call('DEL', unpack(ours)) end
-- LT, since Redis 7, needs no read: of many keys each would cost too much.
for i = 1, stay and #ours or 0 do
  redis.call('SET', ours[i], 'kept:' .. token, 'KEEPTTL')
  if type(redis.pcall('PEXPIRE', ours[i], stay, 'LT')) == 'table' then
    local left = redis.call('PTTL', ours[i])
    if left < 0 or left > tonumber(stay) then redis.call('PEXPIRE', ours[i], stay) end
  end
end
return #ours == #KEYS and token or {0, token}
