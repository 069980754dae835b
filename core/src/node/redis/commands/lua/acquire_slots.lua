-- KEYS: the keys of all permits of a semaphore. ARGV: the token, the TTL in ms, and the numbers of the keys to acquire,
-- from 1. Acquires all of these or none. Safe to run twice.
-- Returns the token if granted. If another owner has some of them, returns {0, the time until this many keys are free or
-- -1 without an end, which keys others have, token}. The keys are listed as by acquire.lua, and the label of the owner
-- whose key must end last, if it has one, is before the token. The ends of 16 keys are read, or of as many as must be
-- free, because before Redis 7.2 each read in a script takes time proportional to the script's keys. If others have more,
-- the time is an upper bound.
local token, ttl = ARGV[1], tonumber(ARGV[2])
--@values
-- A key of another type is a taken permit.
local owners, open = values(1, #KEYS, true), true
for j = 3, #ARGV do
  local owner = owners[tonumber(ARGV[j])]
  if owner and owner ~= token then open = false end
end
if not open then
  local which, ends, stays = {}, {}, 'k'
  for i = 1, #KEYS do
    if owners[i] and owners[i] ~= token then
      which[#which + 1] = i
      if string.sub(owners[i], 1, 5) ~= 'kept:' then stays = '' end
    end
  end
  local missing, by_end = #ARGV - 2 - (#KEYS - #which), {}
  for j = 1, math.min(#which, math.max(missing, 16)) do
    local left = redis.call('PTTL', KEYS[which[j]])
    ends[j] = left == -1 and math.huge or left
    by_end[ends[j]] = owners[which[j]]
  end
  table.sort(ends)
  local left = missing > 0 and ends[missing] or 0
  local holder = missing > 0 and tostring(by_end[left]) or ''
  return named(left == math.huge and -1 or left, table.concat(which, ',') .. ',' .. stays, holder, token)
end
-- Granted from here on. A refused acquire changes nothing.
local set, chosen = false, {}
for j = 3, #ARGV do
  local i = tonumber(ARGV[j])
  chosen[#chosen + 1] = KEYS[i]
  if not owners[i] or redis.call('PTTL', KEYS[i]) < ttl then set = redis.call('SET', KEYS[i], token, 'PX', ARGV[2]) end
end
if not set then redis.call('PEXPIRE', chosen[1], redis.call('PTTL', chosen[1])) end
-- Tracks them. Must follow the script's own writes, which would end the tracking.
if #chosen == 1 or not several() or type(redis.pcall('EXISTS', unpack(chosen))) == 'table' then
  for i = 1, #chosen do redis.call('PTTL', chosen[i]) end
end
return token
