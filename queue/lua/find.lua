#!lua flags=no-writes
-- Finds the jobs of one id in many topics.
-- KEYS[1] the bucket's prefix.
-- ARGV    id, then pairs (topic, address (see find)).
-- Returns {now, a description or '' for each topic}.
-- Keeps   all invariants: it reads.
local out = {now}
for i = 2, #ARGV, 2 do
  local ref, page, index, rec = find(ARGV[i], ARGV[i + 1], ARGV[1])
  out[#out + 1] = ref and describe(ARGV[i], ref, page, index, rec, true) or ''
end
return out
