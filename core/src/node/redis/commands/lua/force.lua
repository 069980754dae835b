-- KEYS: the lock keys. ARGV: the deadline by this server's clock (us). Deletes the keys regardless of their owner. It
-- must not run late: its caller then got an error, and another client may hold the lock. Returns {the number of deleted
-- keys, the deadline}. Without a deadline it returns the time.
local time = redis.call('TIME')
if not ARGV[1] then
  return time
end
if time[1] * 1000000 + time[2] > tonumber(ARGV[1]) then
  return redis.error_reply('TOOLATE the delete arrived when its time was over')
end
return {redis.call('DEL', unpack(KEYS)), ARGV[1]}
