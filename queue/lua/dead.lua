#!lua flags=allow-oom
-- Redrives dead jobs, with attempts 0 and due now, or deletes them.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, 'retry' or 'delete', limit (of the oldest; 0 with ids), then pairs (address (see find), id).
-- Returns {revision of the first, then reference, id as in the record and creation in ms of each}.
-- Keeps   invariants 1 to 5. Ids of jobs that are not dead are skipped.
local topic, what, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local dead = P .. 'x:' .. topic
local refs = {}
if limit > 0 then
  refs = call('ZRANGE', dead, 0, limit - 1)
else
  for i = 4, #ARGV, 2 do refs[#refs + 1] = find(topic, ARGV[i], ARGV[i + 1]) end
end
local out = {0}
for _, ref in ipairs(refs) do
  ref = tonumber(ref)
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec then
    call('ZREM', dead, ref)
  elseif call('ZSCORE', dead, ref) then -- and not an id that came twice
    local due, created, _, id = decode(rec)
    local n = #out
    out[n + 1], out[n + 2], out[n + 3] = ref, id or '', created or 0
    if what == 'delete' or not due then
      remove(topic, ref, page, index, rec)
      total('o', topic, 1)
    else
      detach(topic, ref, 'x')
      restartAttempts(page, index)
      makeDue(topic, ref, page, index, rec)
      total('v', topic, 1)
    end
  end
end
if #out > 1 then out[1] = revise((#out - 1) / 3) end
finish()
return out
