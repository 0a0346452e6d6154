#!lua flags=no-writes
-- With: record, stats.
-- Counts the jobs of a topic that are ready, and those that fall due in each of the next 60 minutes and of the next 24
-- hours.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many lists of minutes to skip, how many to count.
-- Returns now in ms, lists counted; how many jobs are ready, for how many ms the oldest one, how many of them fell due
--         in the younger half of that time, which percentage of the latest were pushed within the last minute; 60
--         counts of minutes, 24 of hours. Jobs in w are counted when no list is skipped.
-- Keeps   it writes nothing.
local topic, skip, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local MINUTES, HOURS, LATEST = 60, 24, 10
local counts = {} -- of the minutes, and behind them of the hours
for i = 1, MINUTES + HOURS do counts[i] = 0 end

local function between(from, to)
  local n = 0
  for _, priority in ipairs(PRIORITIES) do
    n = n + call('ZCOUNT', P .. 'w:' .. priority .. ':' .. topic, '(' .. text(from * 1000), text(to * 1000))
  end
  return n
end

-- Which percentage of the ready jobs that fell due last were pushed within the last minute.
local function pushedNow()
  local some, fresh = 0, 0
  for _, priority in ipairs(PRIORITIES) do
    local key = P .. 'w:' .. priority .. ':' .. topic
    for _, id in ipairs(call('ZRANGE', key, text(micros), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, LATEST)) do
      local job = find(topic, id)
      some = some + 1
      if job and now - job.created < 60000 then fresh = fresh + 1 end
    end
  end
  return some > 0 and math.floor(100 * fresh / some) or 0
end

local ready, oldest, young, pushed = 0, 0, 0, 0
if skip == 0 then
  local s = statsOf(topic)
  if s and s[2] > 0 then
    ready, oldest = s[2], s[5]
    young, pushed = between(now - math.floor(oldest / 2), now), pushedNow()
  end
  for i = 1, MINUTES do counts[i] = between(now + (i - 1) * 60000, now + i * 60000) end
  for i = 1, HOURS do counts[MINUTES + i] = between(now + (i - 1) * 3600000, now + i * 3600000) end
end
local last = math.floor(now / 60000) + HOURS * 60
local lists = call('ZRANGE', P .. 'm:' .. topic, '-inf', last, 'BYSCORE', 'LIMIT', skip, limit)
for _, minute in ipairs(lists) do
  local ahead = math.max(0, minute * 60000 + 30000 - now)
  local m, h = math.floor(ahead / 60000) + 1, math.floor(ahead / 3600000) + 1
  local n = call('LLEN', P .. 'f:' .. topic .. ':' .. minute) - (call('HGET', P .. 'z:' .. topic, minute) or 0)
  if m <= MINUTES then counts[m] = counts[m] + n end
  if h <= HOURS then counts[MINUTES + h] = counts[MINUTES + h] + n end
end
return {now, #lists, ready, oldest, young, pushed, unpack(counts)}
