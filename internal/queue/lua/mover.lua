#!lua flags=allow-oom
-- Lets one process at a time move jobs out of this shard.
-- KEYS[1] the prefix of bucket 0.
-- ARGV    the process's name, for how long in ms, how many jobs it has moved since its last call.
-- Returns 1; 0 when another process moves jobs.
-- Keeps   all invariants: no other script writes mover and moved.
local have = call('GET', P .. 'mover')
if have and have ~= ARGV[1] then return 0 end
call('SET', P .. 'mover', ARGV[1], 'PX', ARGV[2])
if ARGV[3] ~= '0' then
  call('INCRBY', P .. 'moved', ARGV[3])
  call('PEXPIRE', P .. 'moved', 3600000)
end
return 1
