#!lua flags=no-writes
-- Counts the jobs of a topic that fall due in each of the next 60 minutes and of the next 24 hours.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many pages to skip, how many to count.
-- Returns now, pages counted, 60 counts of minutes, 24 of hours. The near jobs are counted when no page is skipped.
-- Keeps   all invariants: it reads.
local topic, skip, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local MINUTES, HOURS = 60, 24
local counts = {} -- of the minutes, and behind them of the hours
for i = 1, MINUTES + HOURS do counts[i] = 0 end

local function add(at, n)
  local ahead = math.max(0, at - now)
  local m, h = floor(ahead / 60000) + 1, floor(ahead / 3600000) + 1
  if m <= MINUTES then counts[m] = counts[m] + n end
  if h <= HOURS then counts[MINUTES + h] = counts[MINUTES + h] + n end
end

local function between(from, to)
  return call('ZCOUNT', P .. 'd:' .. topic, '(' .. string.format('%d', from), string.format('%d', to))
end

if skip == 0 and call('EXISTS', P .. 'd:' .. topic) == 1 then
  for i = 1, MINUTES do counts[i] = between(now + (i - 1) * 60000, now + i * 60000) end
  for i = 1, HOURS do counts[MINUTES + i] = between(now + (i - 1) * 3600000, now + i * 3600000) end
end
local pages = call('ZRANGE', P .. 'pg:' .. topic, '-inf', now + 86400000, 'BYSCORE', 'LIMIT', skip, limit, 'WITHSCORES')
for i = 1, #pages, 2 do
  local n = call('LLEN', pageKey(pages[i])) - 1 - tonumber(call('HGET', P .. 'gone', pages[i]) or 0)
  add(tonumber(pages[i + 1]) + SLOT / 2, n)
end
return {now, #pages / 2, unpack(counts)}
