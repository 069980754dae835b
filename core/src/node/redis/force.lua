-- KEYS: lock keys. ARGV: by when, by this server's clock (us). Deletes them whoever has them, but not too late: by
-- then whoever asked was told that it failed, and somebody else may have them. Returns {how many there were, that time}.
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] > tonumber(ARGV[1]) then
  return redis.error_reply('TOOLATE the delete arrived when its time was over')
end
return {redis.call('DEL', unpack(KEYS)), ARGV[1]}
