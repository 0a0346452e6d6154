#!lua flags=no-writes
-- With: record, describe.
-- Reads jobs, and finished ones that are remembered.
-- KEYS[1] the bucket's prefix.
-- ARGV    pairs of topic and id.
-- Returns {now in µs, then for each its description, or ''}.
-- Keeps   it writes nothing.
local out = {micros}
for i = 1, #ARGV, 2 do
  local job = find(ARGV[i], ARGV[i + 1])
  out[#out + 1] = job and describe(ARGV[i], ARGV[i + 1], job, true) or ''
end
return out
