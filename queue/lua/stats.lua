#!lua flags=no-writes
-- Counts jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns five a topic: delayed, ready, running, dead, ms since the oldest ready job fell due.
local out = {}
local byState = {}
for i, key in ipairs({'nd', 'nr', 'nu', 'nx'}) do byState[i] = call('HMGET', P .. key, unpack(ARGV)) end
for k, topic in ipairs(ARGV) do
  local oldest = 0
  for i = 1, 4 do out[#out + 1] = math.max(0, tonumber(byState[i][k] or 0)) end
  if out[#out - 2] > 0 then
    for p = 0, 2 do
      local refs = call('LRANGE', P .. 'r:' .. p .. ':' .. topic, 0, 9)
      for _, ref in ipairs(refs) do
        local page, index = placeOf(ref)
        local rec = read(page, index)
        local due = rec and decode(rec)
        if due then
          oldest = math.max(oldest, now - due)
          break
        end
      end
    end
  end
  out[#out + 1] = oldest
end
return out
