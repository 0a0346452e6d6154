#!lua flags=no-writes
-- Reads jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    three a job: topic, address (see find), id.
-- Returns {now, a description or '' for each}.
-- Keeps   all invariants: it reads.
local out = {now}
for i = 1, #ARGV, 3 do
  local ref, page, index, rec = find(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  out[#out + 1] = ref and describe(ARGV[i], ref, page, index, rec, true) or ''
end
return out
