-- KEYS: lock keys, each of a lease of its own. ARGV: of each its token and its ttl in ms. Never creates a key and never
-- shortens.
-- Returns of each its token, or nil where it is not simply ours: extend.lua tells what it is then.
-- An error, with nothing written, where the server has no GT (before Redis 7).
-- All are read at once: before Redis 7.2 each read in a script costs as much as the script has keys.
local owners, answers = redis.call('MGET', unpack(KEYS)), {}
for i, key in ipairs(KEYS) do
  local token, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  answers[i] = owners[i] == token and token
  -- GT leaves keys without ttl to NX.
  if answers[i] and redis.call('PEXPIRE', key, ttl, 'GT') == 0 then redis.call('PEXPIRE', key, ttl, 'NX') end
end
-- Has this connection told of changes; comes after the script's own writes, or it would not be.
redis.call('EXISTS', unpack(KEYS))
return answers
