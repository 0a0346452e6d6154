#!lua flags=no-writes
-- Reads finished jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    three a job: topic, address (see find), id.
-- Returns {now, a description or '' for each}.
-- Keeps   all invariants: it reads.
local out = {now}
for i = 1, #ARGV, 3 do
  local f = recall(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  out[#out + 1] = f and describeFinished(f) or ''
end
return out
