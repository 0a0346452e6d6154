#!lua flags=no-writes
-- With: record, describe.
-- Reads jobs, or finished jobs that are remembered.
-- KEYS[1] the bucket's prefix.
-- ARGV    'live' or 'finished', then pairs of topic and id.
-- Returns {now in µs, then for each its description, or ''}.
-- Keeps   it writes nothing.
local out = {micros}
for i = 2, #ARGV, 2 do
  local job = find(ARGV[i], ARGV[i + 1])
  local found = job and (job.state == 'done') == (ARGV[1] == 'finished')
  out[#out + 1] = found and describe(ARGV[i], ARGV[i + 1], job, true) or ''
end
return out
