#!lua flags=allow-oom
-- Stores a host's settings that should be the same on all hosts, and returns those of the others. It also tries the
-- commands of scripts, so that missing rights are found.
-- KEYS[1] the bucket's prefix.
-- ARGV    host ('' to store nothing), its settings as text.
-- Returns each other host, followed by its settings.
-- Keeps   all invariants. An entry older than KEPT belongs to a host that has stopped.
local KEPT = 180000
local key = P .. 'set'
if ARGV[1] ~= '' then
  call('HSET', key, ARGV[1], string.format('%d ', now) .. ARGV[2])
else
  call('SET', P .. 'probe', 1, 'EX', 60)
end
call('PUBLISH', P .. 'probe', '')
local out = {}
local all = call('HGETALL', key)
for i = 1, #all, 2 do
  local at, settings = string.match(all[i + 1], '^(%d+) (.*)$')
  if now - at > KEPT then
    call('HDEL', key, all[i])
  elseif all[i] ~= ARGV[1] then
    out[#out + 1], out[#out + 2] = all[i], settings
  end
end
return out
