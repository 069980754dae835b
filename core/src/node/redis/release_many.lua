-- KEYS: lock keys, each of a lease of its own. ARGV: of each its token. Deletes only what is whose it is said to be.
-- Returns of each its token, or nil where it was not simply ours: release.lua tells what it is then.
-- All are read at once: before Redis 7.2 each read in a script costs as much as the script has keys.
local owners, answers, ours = redis.call('MGET', unpack(KEYS)), {}, {}
for i, token in ipairs(ARGV) do
  answers[i] = owners[i] == token and token
  if answers[i] then ours[#ours + 1] = KEYS[i] end
end
if #ours > 0 then redis.call('DEL', unpack(ours)) end
return answers
