-- What every script shares. KEYS[1] is the bucket's prefix, "wk:{BUCKET}:"; every key of the bucket begins with it, so
-- all of them live in one slot of a Cluster. keys.go lists them.
--
-- A job's record is an entry of a page, a LIST of up to PAGE-1 records behind its topic's name. A reference names the
-- place and the priority, ((page * PAGE) + index) * 4 + priority, and no place is ever used twice: a reference to a
-- job that is gone finds an empty entry or none, whatever has been pushed since.
--
-- Invariants that all scripts keep:
--   1. a live record is in exactly one of: an unopened page (pg:TOPIC), d:TOPIC, a ready list, lease, x:TOPIC;
--   2. a ready list that is not empty has its topic either in the ring q:PRIORITY or in park, never in both;
--   3. due holds, for every topic with something to come, a time not later than its next event;
--   4. nd, nr, nu and nx count the live jobs of each topic by state.
local P = KEYS[1]
local call = redis.call
local floor = math.floor
local T = call('TIME')
local now = T[1] * 1000 + floor(T[2] / 1000)
local SLOT = 60000    -- a page of jobs that are not near holds one minute of one topic
local LEAD = 60000    -- and is opened this long before that minute begins
local PAGE = 1024
local NEWER = 32      -- flags from here on are of record formats that this version does not know
local LOCATORS = @LOCATORS@
local PARTS = @PARTS@ -- into which a small hash is split
local LONG = @LONG@   -- when they hold so many locators on average
local WINDOW = 32     -- calls in flight that a topic starts with
local GATED = 5000    -- a topic that waits for its own calls is looked at again after this, should the event be missed
local DAYS = 40       -- that finished days are kept
-- Too long a value for a listpack, in which some hundred fields would be searched from the first on.
local TABLE = string.rep('-', 65)
-- What happened to a topic's jobs, counted for ever in t:TOPIC: p pushed, d delivered, f attempts that failed, r retries, z snoozes, x deleted,
-- k died, e of those because they expired, v dead ones put back, o dead ones deleted, y replaced. p = d + x + o + y + the jobs that live.
local TOTALS = 'pdfrzxkevoy'

-- What is known of topics and pages by now, and what is gathered and written once at the end, by finish().
local topics, pageKeys, confs = {}, {}, {}
local splits, turn, parts -- see knowSplits
local counts, totals, events, readies = {}, {}, {}, {}
local wakeTimers, wakeDispatchers = false, false

-- Redis goes through a small hash from its first field on. So when the small hashes get long each is split in PARTS, one after the other by their
-- numbers, and again when these do: linear hashing (Litwin, VLDB 1980). A round is over when LOCATORS are split; splits counts on. Those whose turn
-- has come in this round are in parts * PARTS: i:N, i:N/1 and so on, by the field's first byte; the others in parts. advance.lua does it.
local function knowSplits(count)
  splits = tonumber(count or 0)
  turn = splits % LOCATORS
  parts = PARTS ^ ((splits - turn) / LOCATORS)
end

-- Takes n revisions and returns the first. Each change that a journal has gets one: of two changes of a job the later one has the
-- higher revision.
local function revise(n) return call('INCRBY', P .. 'rev', n) - n + 1 end

local function partKey(n, part) return P .. 'i:' .. string.format('%d', n) .. (part > 0 and '/' .. part or '') end

-- The key of the small hash that has a locator of the number N.
local function smallHash(n, field)
  if not splits then knowSplits(call('HGET', P .. 'cur', '/')) end
  return partKey(n, string.byte(field) % (n < turn and parts * PARTS or parts))
end

-- All that follows, the script too, is one function: what stands before it is found at once when one of its functions is made, and not after
-- everything that has been declared since. The loader ends it.
return (function()

local function placeOf(ref)
  local q = floor(ref / 4)
  local index = q % PAGE
  return (q - index) / PAGE, index
end

local function topicOf(page)
  local t = topics[page]
  if t == nil then
    t = call('LINDEX', P .. 'p:' .. page, 0)
    topics[page] = t
  end
  return t
end

-- Making a key of a number is slow.
local function pageKey(page)
  local key = pageKeys[page]
  if not key then
    key = P .. 'p:' .. page
    pageKeys[page] = key
  end
  return key
end

-- The record at a place, or nil when the job is gone.
local function read(page, index)
  local rec = call('LINDEX', pageKey(page), index)
  if rec == false or rec == '' then return nil end
  return rec
end

-- Of a record: due, created, flags, id and where the rest begins; nil when it cannot be decoded. This is the gate to newer formats
-- (flags from NEWER on): only so much is the same in all formats. There is no rest of a newer one, and who needs it leaves the job.
local function decode(rec)
  if #rec < 14 then return nil end
  local due, created, flags, n, at = struct.unpack('>I6I6BB', rec)
  if #rec < 14 + n then return nil end
  return due, created, flags, string.sub(rec, at, at + n - 1), flags < NEWER and at + n or nil
end

-- The priority of a record, by which its reference ends; 0 of one that is damaged.
local function priorityOf(rec) return (string.byte(rec, 13) or 0) % 4 % 3 end

local function hasBodyKey(flags) return flags % 8 >= 4 end

-- ttr in ms and attempts of the job itself; nil where it leaves them to its topic, or the record is cut off there.
local function own(rec, flags, at)
  if not at or flags % 16 < 8 or #rec < at + 5 then return nil, nil end
  local ttr, max = struct.unpack('>I4I2', rec, at)
  if ttr == 0 then ttr = nil end
  if max == 0 then max = nil end
  return ttr, max
end

-- A topic's limits, as "ttr max_attempts paused max_in_flight rate".
local function confOf(topic)
  local c = confs[topic]
  if c then return c end
  c = {ttr = 10000, max = 10, paused = false, flight = 0, rate = 0}
  local s = call('HGET', P .. 'conf', topic)
  if s then
    local ttr, max, paused, flight, rate = string.match(s, '^(%S+) (%S+) (%S+) (%S+) (%S+)')
    c = {ttr = tonumber(ttr), max = tonumber(max), paused = paused == '1', flight = tonumber(flight), rate = tonumber(rate)}
  end
  confs[topic] = c
  return c
end

local function count(state, topic, n)
  local c = counts[state]
  if not c then c = {}; counts[state] = c end
  c[topic] = (c[topic] or 0) + n
end

local function total(what, topic, n)
  local t = totals[topic]
  if not t then t = {}; totals[topic] = t end
  t[what] = (t[what] or 0) + n
end

-- The first event of a day (UTC): what the day before brought is put aside, and where the totals stand now.
local function newDay(key, was, today)
  local have = call('HGETALL', key)
  local at = {}
  for i = 1, #have, 2 do at[have[i]] = have[i + 1] end
  local brought = {}
  for what in string.gmatch(TOTALS, '.') do
    local n = at[what] or 0
    brought[#brought + 1] = string.format('%d', n - (at['s' .. what] or 0))
    call('HSET', key, 's' .. what, n)
  end
  if was then
    call('HSET', key, 'D:' .. was, table.concat(brought, ' '))
    for day = math.max(was, today - 64) - DAYS, today - DAYS - 1 do call('HDEL', key, 'D:' .. day) end
  end
  call('HSET', key, 'day', today)
  call('ZREMRANGEBYSCORE', P .. 'act', '-inf', now - DAYS * 86400000)
end

local function writeTotals()
  local today = string.format('%d', floor(now / 86400000))
  for topic, t in pairs(totals) do
    local key = P .. 't:' .. topic
    local last = call('HMGET', key, 'day', 'at')
    if last[1] ~= today then newDay(key, last[1], today) end
    if now - (last[2] or 0) >= 1000 then
      call('HSET', key, 'at', string.format('%d', now))
      call('ZADD', P .. 'act', string.format('%d', now), topic)
    end
    for what, n in pairs(t) do call('HINCRBY', key, what, string.format('%d', n)) end
  end
end

local function event(topic, at)
  local e = events[topic]
  if not e or at < e then events[topic] = at end
end

local function ready(topic, priority, ref)
  local p = readies[priority]
  if not p then p = {}; readies[priority] = p end
  local l = p[topic]
  if not l then l = {}; p[topic] = l end
  l[#l + 1] = ref
  count('nr', topic, 1)
end

-- RPUSH, ZADD and the like of many arguments, in steps that unpack() can take.
local function many(command, key, args)
  for i = 1, #args, 1000 do
    call(command, key, unpack(args, i, math.min(i + 999, #args)))
  end
end

local function unpark(topic)
  for p = 0, 2 do
    if call('ZREM', P .. 'park', p .. ':' .. topic) == 1 then
      call('RPUSH', P .. 'q:' .. p, topic)
      wakeDispatchers = true
    end
  end
end

local function finish()
  for p, byTopic in pairs(readies) do
    for topic, refs in pairs(byTopic) do
      local key = P .. 'r:' .. p .. ':' .. topic
      local before = call('LLEN', key)
      many('RPUSH', key, refs)
      if before == 0 then call('RPUSH', P .. 'q:' .. p, topic) end
      wakeDispatchers = true
    end
  end
  for state, byTopic in pairs(counts) do
    for topic, n in pairs(byTopic) do
      if n ~= 0 then call('HINCRBY', P .. state, topic, string.format('%d', n)) end
    end
  end
  writeTotals()
  for topic, at in pairs(events) do
    local known = call('ZSCORE', P .. 'due', topic)
    if not known or at < tonumber(known) then
      if call('ZCOUNT', P .. 'due', '-inf', at) == 0 then wakeTimers = true end
      call('ZADD', P .. 'due', at, topic)
    end
  end
  if wakeTimers then call('PUBLISH', P .. 'wake', 'T') end
  if wakeDispatchers and call('DEL', P .. 'idle') == 1 then call('PUBLISH', P .. 'wake', 'D') end
end

local function locator(topic, id)
  local h = redis.sha1hex(topic .. '\0' .. id)
  local field = string.gsub(string.sub(h, 7, 22), '..', function(x) return string.char(tonumber(x, 16)) end)
  return tonumber(string.sub(h, 1, 6), 16) % LOCATORS, field
end

-- Whether what stands in a record in place of the id is a nonce: the job's id names its place, and there is no locator. No id begins so, since
-- ids are UTF-8.
local function isNonce(id)
  if #id ~= 5 then return false end
  local first = string.byte(id)
  return first >= 128 and first < 192
end

-- Whether a record that has no rest is one of a newer format: a damaged one may look like it, but no locator leads to it.
local function isNewer(topic, ref, flags, id)
  if not flags then return false end
  if isNonce(id) then return true end
  local n, field = locator(topic, id)
  return call('HGET', smallHash(n, field), field) == string.format('%d', ref)
end

-- Appends a record to the page for its time and puts it where that time says; returns the reference.
-- The caller sets the locator. A job that waits for a retry (at is not its due time) is near, however long it waits: what opens a
-- page goes by the records' due times.
local function store(topic, priority, at, rec, due)
  local slot = at - at % SLOT
  local near = slot - LEAD <= now or at ~= due
  local field = near and topic or topic .. '/' .. slot
  local page = call('HGET', P .. 'cur', field)
  local length
  if page then
    length = call('RPUSH', P .. 'p:' .. page, rec)
  else
    page = call('INCR', P .. 'seq')
    length = call('RPUSH', P .. 'p:' .. page, topic, rec)
    call('HSET', P .. 'cur', field, page, '', TABLE)
    if not near then call('ZADD', P .. 'pg:' .. topic, slot, page) end
  end
  if length >= PAGE then call('HDEL', P .. 'cur', field) end
  local ref = (page * PAGE + length - 1) * 4 + priority
  if at <= now then
    ready(topic, priority, ref)
    return ref
  end
  count('nd', topic, 1)
  if near then
    call('ZADD', P .. 'd:' .. topic, at, ref)
    event(topic, at)
  else
    event(topic, slot - LEAD)
  end
  return ref
end

local function dropPage(topic, page)
  call('UNLINK', P .. 'p:' .. page, P .. 'a:' .. page)
  call('HDEL', P .. 'gone', page)
  local slot = call('ZSCORE', P .. 'pg:' .. topic, page)
  local field = topic
  if slot then
    call('ZREM', P .. 'pg:' .. topic, page)
    field = topic .. '/' .. slot
  end
  if call('HGET', P .. 'cur', field) == tostring(page) then call('HDEL', P .. 'cur', field) end
end

-- A page whose records are all gone goes too.
local function gone(topic, page, n)
  local total = n > 0 and call('HINCRBY', P .. 'gone', page, n) or tonumber(call('HGET', P .. 'gone', page) or 0)
  if total >= call('LLEN', P .. 'p:' .. page) - 1 then dropPage(topic, page) end
end

-- Empties a place that is in no list, lease or set any more; the locator is the caller's to remove.
local function free(topic, ref, page, index, flags)
  redis.pcall('LSET', P .. 'p:' .. page, index, '')
  if hasBodyKey(flags) then call('UNLINK', P .. 'b:' .. ref) end
  gone(topic, page, 1)
end

-- Where a live job is: d and when it becomes ready, u and the lease's end, x and when it died, r.
local function stateOf(topic, ref, page, due)
  local at = call('ZSCORE', P .. 'd:' .. topic, ref)
  if at then return 'd', tonumber(at) end
  at = call('ZSCORE', P .. 'lease', ref)
  if at then return 'u', tonumber(at) end
  at = call('ZSCORE', P .. 'x:' .. topic, ref)
  if at then return 'x', tonumber(at) end
  if call('ZSCORE', P .. 'pg:' .. topic, page) then return 'f', due end
  return 'r', 0
end

-- Takes a live job out of whatever holds it (invariant 1), leaving its record, locator and attempts.
local function detach(topic, ref, state)
  if state == 'd' then
    call('ZREM', P .. 'd:' .. topic, ref)
    count('nd', topic, -1)
  elseif state == 'f' then
    count('nd', topic, -1)
  elseif state == 'u' then
    call('ZREM', P .. 'lease', ref)
    call('HDEL', P .. 'tok', ref)
    count('nu', topic, -1)
    unpark(topic)
  elseif state == 'x' then
    call('ZREM', P .. 'x:' .. topic, ref)
    count('nx', topic, -1)
  else
    count('nr', topic, -1) -- its ready list keeps the reference, which finds nothing
  end
end

-- Removes a live job altogether.
local function remove(topic, ref, page, index, rec)
  local due, _, flags, id = decode(rec)
  detach(topic, ref, (stateOf(topic, ref, page, due)))
  local n, field = locator(topic, id or '')
  call('HDEL', smallHash(n, field), field)
  call('HDEL', P .. 'a:' .. page, index)
  free(topic, ref, page, index, flags or 0)
end

-- The same of a job whose id names its place (page, index and nonce are behind the 11 bytes of the locator), if it is still there.
local function findPlace(topic, place)
  local page, index, nonce = struct.unpack('>I6I2c5', place)
  local rec = read(page, index)
  if not rec then return nil end
  local _, _, flags, have = decode(rec)
  if have ~= nonce or topicOf(page) ~= topic then return nil end
  return (page * PAGE + index) * 4 + flags % 4, page, index, rec
end

-- The reference of (topic, id) and its place and record; nil when it does not live. address is its locator (11 bytes), and the place that its id
-- names, if any: a caller may have chosen an id that looks like it.
local function find(topic, address, id)
  if #address > 11 then
    local ref, page, index, rec = findPlace(topic, string.sub(address, 12))
    if ref then return ref, page, index, rec end
  end
  local n, field = struct.unpack('>I3c8', address)
  local ref = call('HGET', smallHash(n, field), field)
  if not ref then return nil end
  ref = tonumber(ref)
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec then return nil end
  local _, _, _, have = decode(rec)
  if have ~= id or topicOf(page) ~= topic then return nil, 'collision' end
  return ref, page, index, rec
end

-- A job as the Go side decodes it: state, its time, record, body key's value, attempts.
local function describe(topic, ref, page, index, rec, whole)
  local due, _, flags = decode(rec)
  local state, at = stateOf(topic, ref, page, due)
  local attempts = call('HGET', P .. 'a:' .. page, index)
  local body = whole and flags and hasBodyKey(flags) and call('GET', P .. 'b:' .. ref)
  return {ref, state, at or 0, rec, body or '', attempts or ''}
end

-- What a:PAGE keeps of a job: attempts made, snoozes, reason and history as attempts.go writes them; no made when they are of a
-- newer format.
local function readAttempts(page, index)
  local text = call('HGET', P .. 'a:' .. page, index)
  if not text then return 0, 0, '', '[]' end
  local made, snoozes, reason, history = string.match(text, '^(%d+);(%d+);([^;]*);(.*)$')
  return tonumber(made), snoozes, reason, history
end

local function writeAttempts(page, index, made, snoozes, reason, history)
  call('HSET', P .. 'a:' .. page, index, made .. ';' .. snoozes .. ';' .. reason .. ';' .. history)
end

-- Counts the attempts of a dead job from 0 again. Its history stays.
local function restartAttempts(page, index)
  local made, _, reason, history = readAttempts(page, index)
  if made then writeAttempts(page, index, 0, 0, string.match(reason, '@.*$') or '', history) end
end

-- How long the oldest ready job of a topic has been due, in ms.
local function oldestReady(topic)
  local oldest = 0
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
  return oldest
end

-- Ready now, under the reference that it has; only for records outside unopened pages.
local function makeDue(topic, ref, page, index, rec)
  call('LSET', P .. 'p:' .. page, index, struct.pack('>I6', now) .. string.sub(rec, 7))
  ready(topic, ref % 4, ref)
end
