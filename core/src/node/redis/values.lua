-- What keys hold, in one read where there are several: before Redis 7.2 each read in a script costs as much as the
-- script has keys. A key of another type shows in the count. Its own GET raises the error. With `foreign` the value is 0
-- instead, which is not anyone's token.
local function values(first, last, foreign)
  local found = first < last and redis.pcall('MGET', unpack(KEYS, first, last))
  if found and not found.err then
    local count = 0
    for i = 1, #found do if found[i] then count = count + 1 end end
    if redis.pcall('EXISTS', unpack(KEYS, first, last)) == count then return found end
  end
  found = {}
  for i = first, last do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then
      value = foreign and string.find(value.err, '^%-?WRONGTYPE') and 0 or redis.call('GET', KEYS[i])
    end
    found[i - first + 1] = value
  end
  return found
end
-- Has this connection told of changes of the first keys; comes after the script's own writes, or it would not be.
local function track(last)
  if last == 1 or type(redis.pcall('EXISTS', unpack(KEYS, 1, last))) == 'table' then
    for i = 1, last do redis.call('PTTL', KEYS[i]) end
  end
end
-- Writes what is there already: WAIT knows only of what its own connection has written, and a grant that wrote nothing
-- would be confirmed by replicas that lack what an earlier connection wrote.
local function rewrite()
  redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))
end
-- The fencing token that a key keeps, 0 for none; nil or false for one that no client can have stored.
local function kept(text, most)
  local fence = string.match(text or '0', '^%d+$') and tonumber(text or '0')
  return fence and fence <= most and fence
end
