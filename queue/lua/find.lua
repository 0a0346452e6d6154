#!lua flags=no-writes
-- Looks for one id in many topics.
-- KEYS[1] the bucket's prefix.
-- ARGV    id, then pairs: topic, address (see find).
-- Returns now, then two for each topic that has it: which of the topics (from 1), the job's description.
local id = ARGV[1]
local out = {now}
for i = 2, #ARGV, 2 do
  local ref, page, index, rec = find(ARGV[i], ARGV[i + 1], id)
  if ref then
    out[#out + 1] = i / 2
    out[#out + 1] = describe(ARGV[i], ref, page, index, rec, true)
  end
end
return out
