-- Counts the jobs of topics.

-- How long the oldest ready job of a topic has been due, in ms; at most since its push, since the due time may be long
-- past.
local function oldestReady(topic)
  local oldest = 0
  for p = 0, 2 do
    local refs = call('LRANGE', P .. 'r:' .. p .. ':' .. topic, 0, 9)
    for _, ref in ipairs(refs) do
      local page, index = placeOf(ref)
      local rec = read(page, index)
      local due, created = decode(rec or '')
      if due then
        oldest = math.max(oldest, now - math.max(due, created))
        break
      end
    end
  end
  return oldest
end

-- For each topic: delayed, ready, running, dead, ms since the oldest ready job fell due.
local function statsOf(topics)
  local byState, stats = {}, {}
  for i, key in ipairs({'nd', 'nr', 'nu', 'nx'}) do byState[i] = call('HMGET', P .. key, unpack(topics)) end
  for k, topic in ipairs(topics) do
    local counts = {}
    for i = 1, 4 do counts[i] = math.max(0, tonumber(byState[i][k] or 0)) end
    counts[5] = counts[2] > 0 and oldestReady(topic) or 0
    stats[k] = counts
  end
  return stats
end
