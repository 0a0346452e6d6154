#!lua flags=no-writes
-- Reads the windows and breakers of topics.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns now, then for each topic its window, failures in a row, until when its breaker is open (0: it is closed).
-- Keeps   all invariants: it reads.
local out = {now}
local noted = having('f:', ARGV)
for _, topic in ipairs(ARGV) do
  local f = noted[topic] and call('HMGET', P .. 'f:' .. topic, 'w', 'k', 'o') or {}
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = floor(f[1] or WINDOW), floor(f[2] or 0), floor(f[3] or 0)
end
return out
