#!lua flags=allow-oom
-- Notes what a host has set that all hosts should have alike, and tells what the others have. It also tries what
-- scripts do, so that a user without rights is found.
-- KEYS[1] the bucket's prefix.
-- ARGV    host ('' to note nothing), its settings as text.
-- Returns every other host and its settings, in turn.
-- Keeps   all invariants. What was noted longer ago than KEPT is of a host that has stopped.
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
