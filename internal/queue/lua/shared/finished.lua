-- Remembers and forgets finished jobs, see finished.go.
local STEP = 128       -- jobs that are forgotten at once
local PRESSED = 0.85   -- part of maxmemory above which finished jobs are forgotten
local SAMPLE = 64      -- one of so many calls reads how much memory is used

local finished = {} -- topic → what to write: records, keys of small hashes, fields

-- Forgets up to n jobs in the lists of topics, all of one topic before those of the next. Returns how many all lists
-- have then.
local function shorten(names, n)
  local removed, keys, over = 0, {}, {}
  for _, topic in ipairs(names) do
    local jobs, fields, most = P .. 'o:' .. topic, P .. 'on:' .. topic, n - removed
    local length = call('LLEN', jobs)
    if length > most then
      call('LTRIM', jobs, most, -1)
      call('LTRIM', fields, most, -1)
      removed = n
      break
    end
    removed, over[#over + 1] = removed + length, topic
    keys[#keys + 1], keys[#keys + 2] = jobs, fields
  end
  if #over > 0 then
    call('UNLINK', unpack(keys))
    call('ZREM', P .. 'om', unpack(over))
  end
  return call('INCRBY', P .. 'oc', string.format('%d', -removed))
end

-- Forgets some jobs of the oldest page, if all its jobs finished before a time ('+inf': any).
local function forgetPage(before)
  local page = call('ZRANGE', P .. 'old', '-inf', before, 'BYSCORE', 'LIMIT', 0, 1)[1]
  if not page then return end
  local key = P .. 'op:' .. page
  local topic, length = call('LINDEX', key, 0), call('LLEN', key)
  for k, f in ipairs(length > 1 and call('RPOP', key, STEP) or {}) do
    if k == length then break end -- the topic's name
    local n, field = locator(topic, idOf(f))
    local small = smallHash(n, field)
    local mine = string.format('%d', k - length - page * PAGE)
    if call('HGET', small, field) == mine then call('HDEL', small, field) end
  end
  if length - STEP > 1 then return end
  call('UNLINK', key)
  call('ZREM', P .. 'old', page)
  if topic then call('LREM', P .. 'og:' .. topic, 1, page) end
end

local function forgetTopic(topic)
  shorten({topic}, math.huge)
  for _, page in ipairs(call('LPOP', P .. 'og:' .. topic, 1000) or {}) do call('ZADD', P .. 'old', 0, page) end
end

-- Whether Redis is nearly full. If so, forgets some of the oldest finished jobs.
local pressed
local function nearlyFull()
  if pressed ~= nil then return pressed end
  pressed = false
  if T[2] % SAMPLE ~= 0 then return false end
  local info = call('INFO', 'memory')
  local most = tonumber(string.match(info, '\nmaxmemory:(%d+)'))
  pressed = most > 0 and tonumber(string.match(info, 'used_memory:(%d+)')) > PRESSED * most
  if not pressed then return false end
  for _ = 1, 10 do forgetPage('+inf') end
  local quiet = call('ZRANGE', P .. 'om', 0, 9)
  for _, topic in ipairs(quiet) do forgetTopic(topic) end
  return true
end

-- Collects a finished job for writeFinished. Returns whether its locator stays.
local function remember(topic, record, key, field)
  local keep = confOf(topic).keep
  if keep == 0 or nearlyFull() then return false end
  local f = finished[topic]
  if not f then f = {n = 0, records = {}, keys = {}, fields = {}}; finished[topic] = f end
  local n = f.n + 1
  f.n, f.records[n], f.keys[n], f.fields[n] = n, record, key, field
  return keep > 0
end

local function writeLast(topic, f, most)
  for k, field in ipairs(f.fields) do f.fields[k] = string.sub(field, 5) end
  local length = call('RPUSH', P .. 'o:' .. topic, unpack(f.records))
  call('RPUSH', P .. 'on:' .. topic, unpack(f.fields))
  if length > most then shorten({topic}, length - most) end
end

-- Counts n more jobs in the lists of topics, and forgets those of the quietest topics until all are left.
local function countLast(last, n, all)
  many('ZADD', P .. 'om', last)
  local total = n > 0 and call('INCRBY', P .. 'oc', n) or 0
  while total > all do
    local quiet = call('ZRANGE', P .. 'om', 0, math.min(total - all, STEP) - 1) -- each has at least one job
    if #quiet == 0 then break end
    total = shorten(quiet, total - all)
  end
end

-- The page to which a topic's finished jobs are appended, and its length. A page is used for an eighth of the duration,
-- so that few jobs stay much longer than it.
local function finishedPage(topic, keep)
  local page = call('LINDEX', P .. 'og:' .. topic, -1)
  if page and (call('ZSCORE', P .. 'old', page) or 0) - now > keep then
    local length = call('LLEN', P .. 'op:' .. page)
    if length > 0 and length < PAGE then return page, length end
  end
  page = string.format('%d', call('INCR', P .. 'oseq'))
  call('RPUSH', P .. 'op:' .. page, topic)
  call('RPUSH', P .. 'og:' .. topic, page)
  call('ZADD', P .. 'old', string.format('%d', now + keep + math.max(1000, floor(keep / 8))), page)
  return page, 1
end

local function writePages(topic, f, keep)
  local at = 0
  while at < #f.records do
    local page, length = finishedPage(topic, keep)
    local n = math.min(PAGE - length, #f.records - at)
    call('RPUSH', P .. 'op:' .. page, unpack(f.records, at + 1, at + n))
    for k = 1, n do
      local place = string.format('%d', -(page * PAGE + length + k - 1))
      call('HSET', f.keys[at + k], f.fields[at + k], place)
    end
    at = at + n
  end
  forgetPage(now)
end

local function writeFinished()
  local last, n, all = {}, 0, math.huge
  for topic, f in pairs(finished) do
    local c = confOf(topic)
    if c.keep > 0 then
      writePages(topic, f, c.keep)
    else
      writeLast(topic, f, -c.keep)
      last[#last + 1], last[#last + 2] = string.format('%d', now), topic
      n, all = n + #f.records, math.min(all, c.all)
    end
  end
  countLast(last, n, all)
end
