-- Releases a writer: release.lua, which follows, and the turn of waiting readers begins. KEYS: the lock key, the turn.
-- ARGV: as release.lua. A late repeat finds another value in the key, and begins no turn.
do
  --@turn
  local turn = table.remove(KEYS)
  if redis.pcall('GET', KEYS[1]) == ARGV[1] and (ARGV[2] or '0') == '0' then open(turn, 'r') end
end
