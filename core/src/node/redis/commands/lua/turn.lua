-- The turn is a letter, followed by a window in ms:
-- r  waiting readers come next, w  waiting writers come next. A waiting caller sets it while the other side has the
-- lock. Once a caller finds that this side has left, it lasts for the window.
-- s  readers that waited have the lock, and others may join them for the window. b  The same, and a writer waits.
local function window_of(stored) return tonumber(string.sub(stored, 2)) end
local function open(turn, stored)
  local window = window_of(stored)
  if window and redis.call('PTTL', turn) > window then redis.call('PEXPIRE', turn, window) end
end
-- A caller that waits for less time does not end the turn of another one earlier.
local function set_turn(turn, stored, side, window, lasts)
  if string.sub(stored or '', 1, 1) ~= side or redis.call('PTTL', turn) < tonumber(lasts) then
    redis.call('SET', turn, side .. window, 'PX', lasts)
  end
end
