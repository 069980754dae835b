-- A writer's vote: acquire.lua, which follows, behind the turn of waiting readers. KEYS: as acquire.lua, then the turn.
-- ARGV: as acquire.lua, then the window of the turn that it sets and how long it lasts before, in ms, or 0 and 0 if the
-- caller does not wait. A final t in a refusal means that waiting readers come first. It remains for as long as their
-- turn.
do
  --@turn
  local turn, lasts, window = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
  local owner, stored = redis.pcall('GET', KEYS[1]), redis.call('GET', turn)
  local side = string.sub(stored or '', 1, 1)
  local shared = type(owner) == 'string' and string.sub(owner, 1, 7) == 'shared:'
  local waits = shared and window ~= '0'
  -- Until the readers' turn ends, others join them. Afterwards, or once all have left, it is the writers' turn.
  if waits and side == 's' then redis.call('SET', turn, 'b' .. string.sub(stored, 2), 'KEEPTTL') end
  if not owner and side == 'r' or waits and (side == 'r' or side == 's' or side == 'b') then
    if side == 'r' then open(turn, stored) end
    return {0, redis.call('PTTL', turn), '1,t', ARGV[1]}
  end
  if waits then set_turn(turn, stored, 'w', window, lasts) end
  if not owner and stored then redis.call('DEL', turn) end
end
