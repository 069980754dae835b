-- KEYS: the lock keys; with fencing, then as many fence keys. ARGV: token, ttl in ms; with fencing: the proposed
-- fence (us), or 0, and the least it may be, or 0; the slack (us). All keys or none; safe to run twice.
-- Returns the token when granted, with fencing {1, ttl, fence, token}, {0, ttl left or -1 for no end, which keys, token}
-- when others have some: their numbers, with a comma behind each, and a k where all of these only stay, released. Every
-- script's answer ends with what it was asked for: an answer to another question is noticed.
-- An error, with nothing written, where a fence key keeps what no client can have stored.
local token, ttl = ARGV[1], tonumber(ARGV[2])
-- The usual case, one free key without fencing, is one command and the tracked read.
if #KEYS == 1 and redis.call('SET', KEYS[1], token, 'NX', 'PX', ARGV[2]) then
  redis.call('PTTL', KEYS[1])
  return token
end
--@values
local fencing = ARGV[3] ~= nil
local locks = fencing and #KEYS / 2 or #KEYS
local owners = values(1, locks)
local left
local which, asked, stays = {}, {}, 'k'
for i = 1, locks do
  local owner = owners[i]
  if owner and owner ~= token then
    which[#which + 1] = i .. ','
    if string.sub(owner, 1, 5) ~= 'kept:' then stays = '' end
    -- The keys of one owner end together.
    local its = asked[owner] or redis.call('PTTL', KEYS[i])
    asked[owner] = its
    if not left or its == -1 or (left ~= -1 and its > left) then left = its end
  end
end
if left then return {0, left, table.concat(which) .. stays, token} end
-- From here on it is granted: a refused acquire leaves no trace, not even a fence.

local fence
if fencing then
  local time = redis.call('TIME')
  local now, slack = time[1] * 1000000 + time[2], tonumber(ARGV[5])
  local highest = tonumber(ARGV[4])
  if highest == 0 then highest = math.min(math.max(tonumber(ARGV[3]), now - slack), now + slack) end
  local step = ARGV[4] == '0' and 1 or 0
  -- Below 2^53, above which numbers lose digits, and no more than a hundred years ahead of both clocks.
  local most = 9007199254740990
  if step == 1 then most = math.min(most, math.max(tonumber(ARGV[3]), now) + 3155760000000000) end
  for i, stored in ipairs(values(locks + 1, #KEYS)) do
    local fence = kept(stored, most)
    if not fence then return redis.error_reply('FENCE ' .. KEYS[locks + i]) end
    highest = math.max(highest, fence + step)
  end
  fence = string.format('%.0f', highest)
  -- A node that has forgotten the fence is then already later than it, whatever it proposes next.
  local forget = string.format('%.0f', math.floor(math.max(now, highest) / 1000) + 600000)
  for i = locks + 1, #KEYS do redis.call('SET', KEYS[i], fence, 'PXAT', forget) end
end

local set = false
for i = 1, locks do
  if not owners[i] or redis.call('PTTL', KEYS[i]) < ttl then set = redis.call('SET', KEYS[i], token, 'PX', ARGV[2]) end
end
if not set then rewrite() end
track(locks)
return fencing and {1, ttl, fence, token} or token
