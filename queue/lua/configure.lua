#!lua flags=allow-oom
-- Sets topics' limits, and unparks topics whose limits changed.
-- KEYS[1] the bucket's prefix.
-- ARGV    pairs (topic, "ttr max_attempts paused max_in_flight rate").
-- Returns how many changed.
-- Keeps   invariant 2.
local n = 0
for i = 1, #ARGV, 2 do
  local topic, conf = ARGV[i], ARGV[i + 1]
  if call('HGET', P .. 'conf', topic) ~= conf then
    call('HSET', P .. 'conf', topic, conf)
    unpark(topic)
    n = n + 1
  end
end
finish()
return n
