-- KEYS: the lock keys; with fencing, then as many fence keys. ARGV: token, ttl in ms; with fencing: the fence
-- to raise the stored one to. Never creates a lock key and never shortens.
-- Returns {1, token} when all keys are ours, {0, token} when one is missing, {-1, token} when another has one.
-- An error, with nothing written, where a fence key keeps what no client can have stored.
-- The fencing token kept under a key, 0 for none; nil for one that no client can have stored.
local function kept(key, most)
  local text = redis.call('GET', key) or '0'
  local fence = string.match(text, '^%d+$') and tonumber(text)
  return fence and fence <= most and fence
end
local token, ttl = ARGV[1], tonumber(ARGV[2])
local locks = ARGV[3] and #KEYS / 2 or #KEYS
local missing = false
for i = 1, locks do
  local owner = redis.call('GET', KEYS[i])
  if not owner then missing = true elseif owner ~= token then return {-1, token} end
end
if missing then return {0, token} end
local stored = {}
for i = locks + 1, #KEYS do
  stored[i] = kept(KEYS[i], 9007199254740991)
  if not stored[i] then return redis.error_reply('FENCE ' .. KEYS[i]) end
end
for i = locks + 1, #KEYS do
  local fence = tonumber(ARGV[3])
  if stored[i] < fence then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local forget = string.format('%.0f', math.floor(math.max(now, fence) / 1000) + 600000)
    redis.call('SET', KEYS[i], ARGV[3], 'PXAT', forget)
  end
end
for i = 1, locks do
  if redis.call('PTTL', KEYS[i]) < ttl then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
for i = 1, locks do redis.call('PTTL', KEYS[i]) end
return {1, token}
