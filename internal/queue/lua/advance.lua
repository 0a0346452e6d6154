#!lua flags=allow-oom
-- Moves what is due: jobs to the ready lists, expired leases back, topics out of park; ends ready jobs that have
-- expired; opens the pages of the coming minute. When nothing is due it forgets finished jobs and splits small hashes,
-- see locators.lua.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs to handle at most.
-- Returns {now, next (when to call again, ms; -1 if never), moved, expired, more (1 when work was
--         left), the fraction of a ms that now leaves out, in µs}.
-- Keeps   invariants 1 to 5. An expired lease counts as an attempt, so a job that kills its dispatcher or worker dies
--         at its limit.
local EXPIRED = 25 -- bytes of an expired lease after the reason, see attempts.go; the last 20 are kept
local SWEPT = 100 -- jobs of a ready list that a sweep reads
local PAUSE = 4 -- ms from one call that splits small hashes, which takes one or two, to the next

local function head(key)
  local at = call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')[2]
  return at and tonumber(at) or math.huge
end

-- When the next work is due, by the heads of the four sets; -1 for none. When a timer polls there is usually no lease,
-- no parked topic and no job that expires, which one command shows.
local function soonest(due)
  local at = due
  if call('EXISTS', P .. 'lease', P .. 'park', P .. 'exp') > 0 then
    at = math.min(at, head('lease'), head('park'), head('exp'))
  end
  return at < math.huge and floor(at) or -1
end

-- Distributes the locators of one small hash over its parts.
local function divide(key, n)
  local all, lists = call('HGETALL', key), {}
  call('DEL', key)
  for i = 1, #all, 2 do
    local part = string.byte(all[i]) % (parts * PARTS)
    local list = lists[part]
    if not list then list = {}; lists[part] = list end
    list[#list + 1], list[#list + 2] = all[i], all[i + 1]
  end
  for part, list in pairs(lists) do many('HSET', partKey(n, part), list) end
end

-- Splits the small hashes whose turn is next, if they are long, at most LONG of them in PAUSE. Returns when to call
-- again: at, or soon. It need not check for free memory: a shard's first round takes 26 MB.
local function split(at)
  if at <= now then return at end
  knowSplits(call('HGET', P .. 'cur', '/'))
  if parts * PARTS > 256 then return at end -- one byte of the field selects the part
  if call('HLEN', partKey(turn, 0)) < LONG / 2 then return at end -- true in most calls
  if not call('SET', P .. 'split', 1, 'NX', 'PX', PAUSE - 1) then return at end
  local keys, fields, last = {}, 0, turn
  repeat
    for part = 0, parts - 1 do
      keys[#keys + 1] = partKey(last, part)
      fields = fields + call('HLEN', keys[#keys])
    end
    last = last + 1
  until #keys >= LONG or fields >= 2 * LONG * LONG or last == LOCATORS
  if fields <= LONG * #keys then return at end
  for i, key in ipairs(keys) do divide(key, turn + floor((i - 1) / parts)) end
  call('HSET', P .. 'cur', '/', string.format('%d', splits + last - turn))
  return math.min(at, now + PAUSE)
end

local first = head('due')
if first > now then
  first = soonest(first)
  forgetPage(now)
  if first < 0 or first > now then return {now, first < 0 and first or split(first), 0, 0, 0, T[2] % 1000} end
end

local budget = tonumber(ARGV[1])
local moved, expired, more = 0, 0, 0

local function bury(topic, ref)
  call('ZADD', P .. 'x:' .. topic, now, ref)
  count('nx', topic, 1)
  total('k', topic, 1)
end

-- Ends an expired lease: its job is ready again, or dead.
local function giveBack(ref)
  local page, index = placeOf(ref)
  local topic = topicOf(page)
  if not topic then return end
  local rec = read(page, index)
  if not rec then return end
  count('nu', topic, -1)
  unpark(topic)
  local _, _, flags, _, at = decode(rec)
  local _, max = own(rec, flags, at)
  local made, snoozes, reason, history = readAttempts(page, index)
  local dead = false
  total('f', topic, 1)
  if made then -- damaged attempts stay as they are
    made = made + 1
    max = max or confOf(topic).max -- 0: no limit
    dead = max > 0 and made >= max
    reason = string.sub(string.match(reason, '@.*$') or '', -19 * EXPIRED) .. string.format('@%010d:%013.0f', made, now)
    writeAttempts(page, index, made, snoozes, (dead and 'lease' or '') .. reason, history)
  end
  if dead then return bury(topic, ref) end
  putBack(topic, string.format('%d', ref))
  total('r', topic, 1)
end

local late = call('ZRANGE', P .. 'lease', '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
if #late > 0 then
  call('ZREM', P .. 'lease', unpack(late))
  call('HDEL', P .. 'tok', unpack(late))
  for _, ref in ipairs(late) do giveBack(tonumber(ref)) end
  expired = #late
  if expired == 100 then more = 1 end
end

local parked = call('ZRANGE', P .. 'park', '-inf', now, 'BYSCORE', 'LIMIT', 0, 200)
for _, member in ipairs(parked) do
  call('ZREM', P .. 'park', member)
  call('RPUSH', P .. 'q:' .. string.sub(member, 1, 1), string.sub(member, 3))
  wakeDispatchers = true
end
if #parked == 200 then more = 1 end

-- Opens a page of a topic: its jobs become near ones. Returns how many. A due time outside the page's minute means a
-- damaged record, which reserve buries.
local function open(topic, page, minute)
  local slot = tonumber(minute)
  local entries = call('LRANGE', P .. 'p:' .. page, 0, -1)
  local args, n, base = {}, 0, (page * PAGE - 1) * 4
  for i = 2, #entries do
    local rec = entries[i]
    if rec ~= '' then
      local due = slot
      if #rec >= 6 then due = struct.unpack('>I6', rec) end
      if due < slot or due >= slot + SLOT then due = now end
      args[n + 1] = string.format('%d', due) -- faster than Redis's own conversion
      args[n + 2] = string.format('%d', base + i * 4 + priorityOf(rec))
      n = n + 2
    end
  end
  many('ZADD', P .. 'd:' .. topic, args)
  call('ZREM', P .. 'pg:' .. topic, page)
  call('HDEL', P .. 'cur', topic .. '/' .. minute)
  return n / 2
end

-- The references of up to limit due jobs of a topic, and when the next job is due, nil if not known. Most topics have
-- few due jobs: one command reads them and the next.
local FEW = 2
local function dueOf(key, limit)
  local first, refs = call('ZRANGE', key, 0, FEW, 'WITHSCORES'), {}
  for i = 1, #first, 2 do
    local at = tonumber(first[i + 1])
    if at > now then return refs, at end
    if #refs == limit then return refs end
    refs[#refs + 1] = first[i]
  end
  if #refs <= FEW then return refs, math.huge end
  return call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
end

-- Makes up to limit due jobs of a topic ready. Returns how many, and when the next is due, nil if not known.
local function move(topic, limit)
  local key = P .. 'd:' .. topic
  local refs, next = dueOf(key, limit)
  if #refs == 0 then return 0, next end
  call('ZREMRANGEBYRANK', key, 0, #refs - 1)
  for _, ref in ipairs(refs) do ready(topic, ref % 4, ref) end
  count('nd', topic, -#refs)
  return #refs, next
end

local function firstPage(topic) return unpack(call('ZRANGE', P .. 'pg:' .. topic, 0, 0, 'WITHSCORES')) end

local due = call('ZRANGE', P .. 'due', '-inf', now, 'BYSCORE', 'LIMIT', 0, 64)
if #due == 64 then more = 1 end
local share = math.max(20, floor(budget / math.max(1, #due)))
local over, later = {}, {}
know(due)
local paged = having('pg:', due)
for _, topic in ipairs(due) do
  local page, minute
  if paged[topic] then page, minute = firstPage(topic) end
  local next
  if budget > 0 then
    local n
    n, next = move(topic, math.min(share, budget))
    moved, budget = moved + n, budget - n
    if page and tonumber(minute) <= now + LEAD and n < share and budget > 0 then
      budget = budget - open(topic, page, minute)
      page, minute = firstPage(topic)
      next = nil
    end
  end
  local at = math.min(next or head('d:' .. topic), page and minute - LEAD or math.huge)
  if at == math.huge then
    over[#over + 1] = topic
  else
    later[#later + 1], later[#later + 2] = at, topic
    if at <= now then more = 1 end
  end
end
many('ZREM', P .. 'due', over)
many('ZADD', P .. 'due', later)

-- Ends the expired ones among the first jobs of a ready list, and before that removes references to gone jobs. Returns
-- how many both are, and when to sweep again.
local function sweepList(topic, key)
  local ended, again = trim(key, SWEPT), now + SWEEP
  for _, ref in ipairs(call('LRANGE', key, 0, SWEPT - 1)) do
    local page, index = placeOf(ref)
    local rec = read(page, index)
    local due, _, flags, _, at = decode(rec or '')
    local expires = at and expiryOf(rec, flags, at) or 0
    if expires > now then
      again = math.min(again, expires)
    elseif expires > 0 and stateOf(topic, tonumber(ref), page, due) == 'r' then
      call('LREM', key, 1, ref)
      expire(topic, ref, page, index, rec)
      ended = ended + 1
    end
  end
  return ended, again
end

-- Sweeps the ready lists of a topic, again and again while it has jobs.
local function sweep(topic)
  local again = now + SWEEP
  for p = 0, 2 do
    local key = P .. 'r:' .. p .. ':' .. topic
    local n, at = sweepList(topic, key)
    if n > 0 and call('EXISTS', key) == 0 then leaveRing(topic, p) end
    again = math.min(again, math.max(at, now + 1000))
    if n >= SWEPT then again = now end
  end
  local left = 0
  for _, state in ipairs({'nd', 'nr', 'nu'}) do
    left = left + (call('HGET', P .. state, topic) or 0) + (counts[state] and counts[state][topic] or 0)
  end
  if left <= 0 then
    call('ZREM', P .. 'exp', topic)
  else
    call('ZADD', P .. 'exp', again, topic)
  end
  if again == now then more = 1 end
end

local expiring = call('ZRANGE', P .. 'exp', '-inf', now, 'BYSCORE', 'LIMIT', 0, 8)
for _, topic in ipairs(expiring) do sweep(topic) end
if #expiring == 8 then more = 1 end

finish()
local next = soonest(head('due'))
if more == 0 and next > 0 then next = split(next) end
return {now, next, moved, expired, more, T[2] % 1000}
