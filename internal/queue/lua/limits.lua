#!lua flags=no-writes
-- With: topic.
-- Reads the windows and breakers of topics.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns for each topic: window, failures in a row, until when its breaker is open (0: it is closed).
-- Keeps   it writes nothing.
local out = {}
for _, topic in ipairs(ARGV) do
  local s, n = settings(topic), #out
  out[n + 1], out[n + 2], out[n + 3] = s.window, s.fails, s.open
end
return out
