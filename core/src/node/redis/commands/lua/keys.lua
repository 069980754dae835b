-- ARGV: a cursor, a pattern, how many keys to look at. Returns {the next cursor, the strings' keys that match, the pattern}.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
return {page[1], page[2], ARGV[2]}
