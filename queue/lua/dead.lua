#!lua flags=allow-oom
-- Puts dead jobs back to ready, with attempts 0 and due now, or deletes them.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, 'retry' or 'delete', limit (of the oldest; 0 with ids), then pairs (address (see find), id).
-- Returns {revision of the first, then id and creation in ms of each}.
-- Keeps   invariants 1 to 4. Ids that are not dead jobs are passed over.
local topic, what, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local refs = {}
if limit > 0 then
  refs = call('ZRANGE', P .. 'x:' .. topic, 0, limit - 1)
else
  for i = 4, #ARGV, 2 do
    local ref = find(topic, ARGV[i], ARGV[i + 1])
    if ref and call('ZSCORE', P .. 'x:' .. topic, ref) then refs[#refs + 1] = ref end
  end
end
local out = {0}
for _, ref in ipairs(refs) do
  ref = tonumber(ref)
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec then
    call('ZREM', P .. 'x:' .. topic, ref)
  else
    local _, created, _, id = decode(rec)
    out[#out + 1], out[#out + 2] = id or '', created or 0
  end
  if rec and (what == 'delete' or not decode(rec)) then
    remove(topic, ref, page, index, rec)
    total('o', topic, 1)
  elseif rec then
    detach(topic, ref, 'x')
    restartAttempts(page, index)
    makeDue(topic, ref, page, index, rec)
    total('v', topic, 1)
  end
end
if #out > 1 then out[1] = revise((#out - 1) / 2) end
finish()
return out
