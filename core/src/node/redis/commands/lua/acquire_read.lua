-- A reader's vote. KEYS: the lock key, the set of readers, the turn. ARGV: the token, the TTL in ms, and 1 if the token
-- may have the lock already, else 0. Then the window of the turn that it sets and how long it lasts before, in ms, or 0
-- and 0 if the caller does not wait. Safe to run twice.
-- All readers share the lock key, whose value is shared: and the token of the first one. It lives at least as long as
-- each reader of the set, which has the end of each by this server's clock. So no other command must know about
-- readers. Returns the token if granted, else the same as acquire.lua. A final t means that the key is free for
-- readers, but that waiting writers come first.
local key, readers, turn, token, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])
--@values
--@turn
local owner, stored = redis.call('GET', key), redis.call('GET', turn)
if owner and string.sub(owner, 1, 7) ~= 'shared:' then
  if ARGV[4] ~= '0' then set_turn(turn, stored, 'r', ARGV[4], ARGV[5]) end
  return refusal(redis.call('PTTL', key), string.sub(owner, 1, 5) == 'kept:' and '1,k' or '1,', owner, token)
end
-- Between two turns of readers that a writer waits for, it comes first. A reader that is in the set already is granted
-- again. A refusal would leave it there.
local side = string.sub(stored or '', 1, 1)
if ARGV[3] == '0' and (side == 'w' or side == 'b' and not owner)
  and not (owner and redis.call('ZSCORE', readers, token)) then
  if not owner then open(turn, stored) end
  return {0, redis.call('PTTL', turn), '1,t', token}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Without the lock key nobody reads, whatever the set contains.
redis.call('ZREMRANGEBYSCORE', readers, '-inf', owner and string.format('%.0f', now) or '+inf')
redis.call('ZADD', readers, 'GT', string.format('%.0f', now + ttl), token)
local left = owner and redis.call('PTTL', key) or 0
if left < ttl then
  -- Longer than necessary, because each write of the key wakes all clients that track it.
  left = ttl + math.min(math.floor(ttl / 10), 1000)
  redis.call('SET', key, owner or 'shared:' .. token, 'PX', left)
end
redis.call('PEXPIRE', readers, left)
-- The first reader begins the turn of those that waited with it.
local window = side == 'r' and not owner and window_of(stored)
if window and window >= 1 then redis.call('SET', turn, 's' .. window, 'PX', window) end
track(1)
return token
