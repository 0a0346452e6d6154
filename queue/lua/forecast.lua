#!lua flags=no-writes
-- Counts the jobs of a topic that fall due in each of the next 60 minutes and of the next 24 hours.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many pages to pass over, how many to look at.
-- Returns {now, pages looked at, 60 counts, 24 counts}. The near jobs are counted when no page is passed over.
local topic, skip, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local minutes, hours = {}, {}
for i = 1, 60 do minutes[i] = 0 end
for i = 1, 24 do hours[i] = 0 end

local function add(at, n)
  local m, h = floor((at - now) / 60000) + 1, floor((at - now) / 3600000) + 1
  if m < 1 then m = 1 end
  if h < 1 then h = 1 end
  if m <= 60 then minutes[m] = minutes[m] + n end
  if h <= 24 then hours[h] = hours[h] + n end
end

local function between(from, to) return call('ZCOUNT', P .. 'd:' .. topic, '(' .. string.format('%d', from), string.format('%d', to)) end

if skip == 0 and call('EXISTS', P .. 'd:' .. topic) == 1 then
  for i = 1, 60 do minutes[i] = between(now + (i - 1) * 60000, now + i * 60000) end
  for i = 1, 24 do hours[i] = between(now + (i - 1) * 3600000, now + i * 3600000) end
end
local pages = call('ZRANGE', P .. 'pg:' .. topic, '-inf', now + 86400000, 'BYSCORE', 'LIMIT', skip, limit, 'WITHSCORES')
for i = 1, #pages, 2 do
  local n = call('LLEN', pageKey(pages[i])) - 1 - tonumber(call('HGET', P .. 'gone', pages[i]) or 0)
  add(tonumber(pages[i + 1]) + SLOT / 2, n)
end
return {now, #pages / 2, minutes, hours}
