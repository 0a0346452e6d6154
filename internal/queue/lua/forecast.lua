#!lua flags=no-writes
-- Counts the jobs of a topic that fall due in each of the next 60 minutes and of the next 24 hours.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many lists of minutes to skip, how many to count.
-- Returns now in ms, lists counted, 60 counts of minutes, 24 of hours. Jobs in w are counted when no list is skipped.
-- Keeps   it writes nothing.
local topic, skip, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local MINUTES, HOURS = 60, 24
local counts = {} -- of the minutes, and behind them of the hours
for i = 1, MINUTES + HOURS do counts[i] = 0 end

local function between(from, to)
  local n = 0
  for _, priority in ipairs(PRIORITIES) do
    n = n + call('ZCOUNT', P .. 'w:' .. priority .. ':' .. topic, '(' .. text(from * 1000), text(to * 1000))
  end
  return n
end

if skip == 0 then
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
return {now, #lists, unpack(counts)}
