#!lua flags=no-writes
-- With: record, stats.
-- Counts the jobs of a topic that are ready, and those that fall due in each of the next 60 minutes and of the next 24
-- hours.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many lists of minutes to skip, how many to count, how many minutes ahead at most.
-- Returns now in ms, lists counted; how many jobs are ready, for how many ms the oldest one, how many of them fell due
--         in the younger half of that time, which percentage of the latest were pushed within the last minute; 60
--         counts of minutes, 24 of hours, 0 for those farther ahead. Jobs in w are counted when no list is skipped.
-- Keeps   it writes nothing.
local topic, skip, limit, ahead = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local MINUTES, HOURS, LATEST = 60, 24, 10
local W, filled = P .. 'w:', {} -- the sets of w that have jobs
local counts = {} -- of the minutes, and behind them of the hours
for i = 1, MINUTES + HOURS do counts[i] = 0 end

local function between(from, to)
  local n = 0
  for _, key in ipairs(filled) do n = n + call('ZCOUNT', key, '(' .. text(from * 1000), text(to * 1000)) end
  return n
end

-- Counts the jobs of w in spans of a length, behind those that were counted before, until none is left.
local function spread(counts, at, spans, length, left)
  for i = 1, spans do
    if left <= 0 then return end
    counts[at + i] = between(now + (i - 1) * length, now + i * length)
    left = left - counts[at + i]
  end
end

-- Which percentage of the ready jobs that fell due last were pushed within the last minute.
local function pushedNow()
  local some, fresh = 0, 0
  for _, key in ipairs(filled) do
    for _, id in ipairs(call('ZRANGE', key, text(DUE), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, LATEST)) do
      local job = find(topic, id)
      some = some + 1
      if job and now - job.created < 60000 then fresh = fresh + 1 end
    end
  end
  return some > 0 and math.floor(100 * fresh / some) or 0
end

local ready, oldest, young, pushed = 0, 0, 0, 0
if skip == 0 then
  for _, priority in ipairs(PRIORITIES) do
    if call('EXISTS', W .. priority .. ':' .. topic) == 1 then filled[#filled + 1] = W .. priority .. ':' .. topic end
  end
  local s = statsOf(topic)
  if s and s[2] > 0 then
    ready, oldest = s[2], s[5]
    young, pushed = between(now - math.floor(oldest / 2), now), pushedNow()
  end
  local left = between(now, now + ahead * 60000)
  spread(counts, 0, math.min(MINUTES, ahead), 60000, left)
  spread(counts, MINUTES, math.ceil(ahead / 60), 3600000, left)
end
local last = math.floor(now / 60000) + ahead
local lists = call('ZRANGE', P .. 'm:' .. topic, '-inf', last, 'BYSCORE', 'LIMIT', skip, limit)
local stale = #lists > 0 and call('HMGET', P .. 'z:' .. topic, unpack(lists)) or {}
for i, minute in ipairs(lists) do
  local wait = math.max(0, minute * 60000 + 30000 - now)
  local m, h = math.floor(wait / 60000) + 1, math.floor(wait / 3600000) + 1
  local n = call('LLEN', P .. 'f:' .. topic .. ':' .. minute) - (stale[i] or 0)
  if m <= MINUTES then counts[m] = counts[m] + n end
  if h <= HOURS then counts[MINUTES + h] = counts[MINUTES + h] + n end
end
return {now, #lists, ready, oldest, young, pushed, unpack(counts)}
