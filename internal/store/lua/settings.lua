#!lua flags=allow-oom
-- Stores a host's settings that should be the same on all hosts, and returns those of the others. It also tests whether
-- the server accepts writes, and its user has the rights that scripts need.
-- KEYS[1] the bucket's prefix.
-- ARGV    host ('' to store nothing), its settings as text.
-- Returns each other host, followed by its settings.
-- Keeps   all invariants. Settings expire KEPT ms after their host stored them last.
local KEPT = 180000
if ARGV[1] ~= '' then
  call('SET', P .. 'set:' .. ARGV[1], ARGV[2], 'PX', KEPT)
  call('SADD', P .. 'set', ARGV[1])
end
call('SET', P .. 'probe', 1, 'EX', 60)
call('PUBLISH', P .. 'probe', '')
local out = {}
for _, host in ipairs(call('SMEMBERS', P .. 'set')) do
  local settings = call('GET', P .. 'set:' .. host)
  if not settings then
    call('SREM', P .. 'set', host)
  elseif host ~= ARGV[1] then
    out[#out + 1], out[#out + 2] = host, settings
  end
end
return out
