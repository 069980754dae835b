-- The turn is a letter for the side that comes next, r or w, followed by its window in ms. A waiting caller sets it
-- while the other side has the lock. Once that side has left, the turn lasts for the window.
local function open(turn, side)
  local stored = redis.pcall('GET', turn)
  local window = type(stored) == 'string' and string.match(stored, '^' .. side .. '(%d+)$')
  if window and redis.call('PTTL', turn) > tonumber(window) then redis.call('PEXPIRE', turn, window) end
end
