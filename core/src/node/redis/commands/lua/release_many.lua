-- KEYS: lock keys of different leases. ARGV: the token of each key. Deletes each key that has its token.
-- Returns the token of each key, or nil if the key was not simply ours. release.lua then determines the result.
-- Reads all keys at once. Before Redis 7.2, each read in a script takes time proportional to the script's keys.
local owners, answers, ours = redis.call('MGET', unpack(KEYS)), {}, {}
for i, token in ipairs(ARGV) do
  answers[i] = owners[i] == token and token
  if answers[i] then ours[#ours + 1] = KEYS[i] end
end
if #ours > 0 then redis.call('DEL', unpack(ours)) end
return answers
