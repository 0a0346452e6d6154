#!lua flags=allow-oom
-- Deletes jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    four a job: topic, address (see find), id, etags that it may have (see matches).
-- Returns three for each: the state it was in (d, f, r, u, x; '' when there was none, 'other' when it has another etag
--         and was not deleted), its creation in ms, revision.
--         A job that was running (u) has lost its lease: the dispatcher can settle nothing, but may have started the
--         callback.
-- Keeps   invariants 1 to 5.
local out = {}
for i = 1, #ARGV, 4 do
  local topic = ARGV[i]
  local ref, page, index, rec = find(topic, ARGV[i + 1], ARGV[i + 2])
  if ref and not matches(ARGV[i + 3], topic, ref, page, index, rec) then
    out[#out + 1], out[#out + 2], out[#out + 3] = 'other', 0, 0
  elseif ref then
    local due, created = decode(rec)
    local state = stateOf(topic, ref, page, due)
    out[#out + 1], out[#out + 2], out[#out + 3] = state, created or 0, revise(1)
    total(state == 'x' and 'o' or 'x', topic, 1)
    remove(topic, ref, page, index, rec)
  else
    out[#out + 1], out[#out + 2], out[#out + 3] = '', 0, 0
  end
end
finish()
return out
