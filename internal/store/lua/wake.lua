#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, finished.
-- Gives topics with due jobs their turns, opens the lists of minutes that are near, forgets finished jobs, and lists
-- leases and waiting jobs that have expired, for settle.lua.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many topics, and how many ids, at most.
-- Returns {now in µs, when a topic has its next event (µs; -1 none), how many topics got a turn, then for each expired
--         one: topic, id, token of its lease ('' a waiting job), attempts}.
-- Keeps   next is never later than a topic's next event.
local left, out = tonumber(ARGV[2]), {}
local AGAIN = 1000 -- ms until what has expired is listed again, if nobody settles it

-- Makes the next reservation find a damaged record, and set it aside, see lease.lua.
local function showDamaged(topic, id) call('ZADD', P .. 'w:normal:' .. topic, micros, id) end

-- Moves ids of a minute to w. Ids whose job is gone, or is due at another time, are left out.
local function open(topic, minute)
  local key = P .. 'f:' .. topic .. ':' .. minute
  local ids = call('LRANGE', key, 0, left - 1)
  left = left - #ids
  for i, record in ipairs(#ids > 0 and call('HMGET', P .. 'j:' .. topic, unpack(ids)) or {}) do
    local job = parse(record)
    local at = job and job.state == 'waiting' and nextOf(job) or 0
    if record and not job then showDamaged(topic, ids[i]) end
    if math.floor(at / MINUTE) == tonumber(minute) then
      call('ZADD', P .. 'w:' .. job.priority .. ':' .. topic, at * 1000 + i % 1000, ids[i])
      order(topic, ids[i], job, at * 1000 + i % 1000)
    end
  end
  call('LTRIM', key, #ids, -1)
  if call('EXISTS', key) == 1 then return end
  call('ZREM', P .. 'm:' .. topic, minute)
  call('HDEL', P .. 'z:' .. topic, minute)
end

local function minutes(topic)
  local at, minute = head(P .. 'm:' .. topic)
  local isEmpty = at and call('EXISTS', P .. 'j:' .. topic) == 0
  if at and left > 0 and (isEmpty or at * MINUTE - LEAD <= now) then
    open(topic, minute)
    at = head(P .. 'm:' .. topic)
  end
  if not at then return math.huge end
  return isEmpty and now or math.max(at * MINUTE - LEAD, now)
end

-- Moves jobs that have fallen due to their number in o. Returns when the next one falls due.
local function ordered(topic, s)
  if not s.order then return math.huge end
  left = left - orderDue(topic, left)
  local first = call('ZRANGE', P .. 'o:' .. topic, '(' .. LAST, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return first[2] and math.max(first[2] / 1000, now) or math.huge
end

-- Lists the members of a sorted set of jobs in a state that have expired. Returns when the next one does.
local function expired(topic, key, state)
  local at = head(key)
  if not at or at > now then return at or math.huge end
  if left == 0 then return now end
  local ids = call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, left)
  left = left - #ids
  for _, id in ipairs(ids) do
    local job, n = find(topic, id), #out
    if job and job.state == state then
      out[n + 1], out[n + 2], out[n + 3], out[n + 4] = topic, id, get(job, 'token') or '', tonumber(job.attempts)
    else
      call('ZREM', key, id)
      if not job and call('HEXISTS', P .. 'j:' .. topic, id) == 1 then showDamaged(topic, id) end
    end
  end
  return left > 0 and now + AGAIN or now
end

-- Forgets finished jobs whose time is over, or all when the topic no longer remembers any.
local function finished(topic, s)
  if s.remember == 'last' and not s.namespace then return math.huge end
  local key, ms = P .. 'fin:' .. topic, not s.namespace and tonumber(s.remember) or 0
  local at = head(key)
  if at and at / 1000 + ms <= now then
    local n = math.min(left, call('ZCOUNT', key, '-inf', micros - ms * 1000))
    left = left - n
    if n > 0 then forget(topic, n) end
    at = head(key)
  end
  return at and math.max(math.ceil(at / 1000) + ms, now) or math.huge
end

local function wake(topic)
  local s = settings(topic)
  if s['until'] > 0 and s['until'] <= now then call('HDEL', P .. 'c:' .. topic, 'until') end
  local at = math.min(minutes(topic), ordered(topic, s), offerDue(topic), s['until'] > now and s['until'] or math.huge,
    expired(topic, P .. 'l:' .. topic, 'running'), expired(topic, P .. 'e:' .. topic, 'waiting'), finished(topic, s))
  if at < math.huge then call('ZADD', P .. 'next', exact(at), topic) else call('ZREM', P .. 'next', topic) end
  run.known[topic] = nil
end

local due = call('ZRANGE', P .. 'next', '-inf', exact(micros / 1000), 'BYSCORE', 'LIMIT', 0, ARGV[1])
for _, topic in ipairs(due) do wake(topic) end
local at = head(P .. 'next')
return {micros, at and math.floor(at * 1000 + 0.5) or -1, run.offered, unpack(out)}
