-- A writer's vote: acquire.lua, which follows, behind the turn of waiting readers. KEYS: as acquire.lua, then the turn.
-- ARGV: as acquire.lua, then the window of a turn in ms or 0 if the caller does not wait. A final t in a refusal means
-- that the key is free, but that waiting readers come first.
do
  local turn, window = table.remove(KEYS), table.remove(ARGV)
  local owner, stored = redis.pcall('GET', KEYS[1]), redis.call('GET', turn)
  local side = string.sub(stored or '', 1, 1)
  if not owner and side == 'r' then return {0, redis.call('PTTL', turn), '1,t', ARGV[1]} end
  if type(owner) == 'string' and string.sub(owner, 1, 7) == 'shared:' and side ~= 'r' and window ~= '0' then
    redis.call('SET', turn, 'w' .. window, 'PX', 3000)
  end
end
