-- Counts what happened to jobs of a topic, in t:TOPIC; for a topic without settings of its own in that of its
-- namespace. The first event of a day (UTC) stores the totals before it under the day's number. act orders these topics
-- by their last event, to within a second.
local DAY, DAYS = 86400000, 40
local TOTALS = {'pushed', 'delivered', 'failed', 'retried', 'snoozed', 'deleted', 'died', 'expired', 'redriven',
  'dropped', 'replaced'}

local function beginDay(name, last)
  local today, key = math.floor(now / DAY), P .. 't:' .. name
  if math.floor(last / DAY) == today then return end
  local totals = call('HMGET', key, unpack(TOTALS))
  for i = 1, #TOTALS do totals[i] = totals[i] or '0' end
  call('ZREMRANGEBYSCORE', P .. 'act', '-inf', now - DAYS * DAY)
  call('HSETNX', key, 'day:' .. today, (string.gsub(table.concat(totals, ' '), '[ 0]*$', '')))
  for _, field in ipairs(call('HKEYS', key)) do
    local day = tonumber(string.match(field, '^day:(%d+)$'))
    if day and day <= today - DAYS then call('HDEL', key, field) end
  end
end

local function count(topic, what, n)
  local name = string.find(topic, '.', 1, true) and settings(topic).namespace or topic
  local last = tonumber(call('ZSCORE', P .. 'act', name) or 0)
  if now - last >= 1000 then
    beginDay(name, last)
    call('ZADD', P .. 'act', now, name)
  end
  call('HINCRBY', P .. 't:' .. name, what, n)
end
