-- Removes a reader. KEYS: the lock key, the set of readers. ARGV: the token. If 0 follows, further arguments are tokens
-- of earlier claims, which are ours too. The last reader deletes the lock key, others shorten its TTL to what the
-- remaining readers need. Safe to run twice, however late: it looks at those that are in the set now. Returns the token
-- if it was a reader, else {0, token}. A key of another type is not ours.
local key, readers, token = KEYS[1], KEYS[2], ARGV[1]
local owner = redis.pcall('GET', key)
if type(owner) == 'table' then
  if string.find(owner.err, '^%-?WRONGTYPE') then return {0, token} end
  return owner
end
local tokens = math.max(#ARGV - 1, 1)
local known = #redis.call('ZRANGE', readers, 0, tokens)
local removed = redis.call('ZREM', readers, token)
local ours = removed == 1
if #ARGV > 2 then removed = removed + redis.call('ZREM', readers, unpack(ARGV, 3)) end
-- A set without members is gone. While its slot of a cluster moves, it must not be read then.
local any = known > removed
if owner and string.sub(owner, 1, 7) == 'shared:' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local last = any and redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
  local left = last and tonumber(last) - now or 0
  if left <= 0 then
    redis.call('DEL', key)
    if any then redis.call('DEL', readers) end
  elseif redis.call('PTTL', key) > left + 1100 then
    -- What acquire_read.lua adds is not worth a write, which would wake all clients that track the key.
    redis.call('PEXPIRE', key, left)
  end
end
return ours and token or {0, token}
