-- KEYS: the lock keys; with fencing, then as many fence keys. ARGV: token, ttl in ms, 1 where it must write whatever
-- there is to do, else 0; with fencing: the fence to raise the stored one to. Never creates a lock key and never shortens.
-- Returns the token when all keys are ours, {0, token} when one is missing or only stays, {-1, token} when another has
-- one. A key of another type belongs to another client.
-- An error, with nothing written, where a fence key keeps what no client can have stored.
local token, ttl = ARGV[1], tonumber(ARGV[2])
-- Nearly all of them: what the rest needs for more keys would cost as much again.
if #KEYS == 1 and not ARGV[4] then
  local call, key = redis.call, KEYS[1]
  local owner = redis.pcall('GET', key)
  if owner ~= token then
    if type(owner) == 'table' then
      if string.find(owner.err, '^%-?WRONGTYPE') then return {-1, token} end
      return owner
    end
    return {owner and string.sub(owner, 1, 5) ~= 'kept:' and -1 or 0, token}
  end
  local left = call('PTTL', key)
  if left < ttl then left = ARGV[2] elseif ARGV[3] ~= '1' then return token end
  call('PEXPIRE', key, left)
  call('PTTL', key)
  return token
end
--@values
local locks = ARGV[4] and #KEYS / 2 or #KEYS
local missing = false
for _, owner in ipairs(values(1, locks, true)) do
  if not owner or string.sub(owner, 1, 5) == 'kept:' then missing = true elseif owner ~= token then return {-1, token} end
end
if missing then return {0, token} end
if ARGV[4] then
  local fence, stored = tonumber(ARGV[4]), values(locks + 1, #KEYS)
  for i = 1, #stored do
    stored[i] = kept(stored[i], 9007199254740991)
    if not stored[i] then return redis.error_reply('FENCE ' .. KEYS[locks + i]) end
  end
  for i = 1, #stored do
    if stored[i] < fence then
      local time = redis.call('TIME')
      local now = time[1] * 1000000 + time[2]
      local forget = string.format('%.0f', math.floor(math.max(now, fence) / 1000) + 600000)
      redis.call('SET', KEYS[locks + i], ARGV[4], 'PXAT', forget)
    end
  end
end
-- Of many keys each read would cost too much: GT, since Redis 7, needs none, and leaves keys without ttl to NX.
local reads, set = locks == 1, 0
for i = 1, locks do
  if not reads then
    local longer = redis.pcall('PEXPIRE', KEYS[i], ARGV[2], 'GT')
    reads = type(longer) == 'table'
    if not reads then set = set + longer + redis.call('PEXPIRE', KEYS[i], ARGV[2], 'NX') end
  end
  if reads and redis.call('PTTL', KEYS[i]) < ttl then set = set + redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
-- Only where it must: two clients that have attached to one lease would tell each other of it for ever.
if set == 0 and ARGV[3] == '1' then rewrite() end
track(locks)
return token
