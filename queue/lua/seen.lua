#!lua flags=allow-oom
-- Notes what a host has seen of this shard.
-- KEYS[1] the prefix of bucket 0.
-- ARGV    host, what it has said before ('' for nothing), what it says now.
-- Returns 1; 0 when it had said something else by what this server holds, or names another server (of a Cluster,
--         among others): this one has forgotten, or is not the one that the host has compared its journal with.
--         Nothing is done then.
-- Keeps   all invariants: seen is nobody else's. A full Redis takes it too, or a host's word would be missing when it
--         matters.
local said = call('HGET', P .. 'seen', ARGV[1]) or ''
if said ~= ARGV[2] and said ~= ARGV[3] then return 0 end
local id = string.match(call('INFO', 'server'), 'run_id:(%x+)')
if id and not string.find(ARGV[3], id, 1, true) then return 0 end
call('HSET', P .. 'seen', ARGV[1], ARGV[3])
call('HSET', P .. 'when', ARGV[1], string.format('%d', now))
return 1
