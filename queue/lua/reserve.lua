#!lua flags=allow-oom
-- Reserves ready jobs under leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    worker, token, how many, pattern of priorities, most of one topic, cap of the first lease in ms, grace in ms, '1' when the
--         token is asked again, then pairs (topic, how many more of it).
-- Returns {now, 1 when it stopped at places that were passed over and there may be more, else 0, six a job: ref, topic, record, body of a body key or '', attempts, lease's end}. One whose lease ends at 0 has none: it was put off
--         since its format is not known here; of several there is one.
-- Keeps   invariants 1 to 4: a job leaves its ready list and gets its lease in this one step. The reservation is noted under the
--         worker's name, so the same token asked again returns the same jobs (those still leased under it).
local worker, token, wanted, pattern = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local topicMax, cap, grace = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local out = {now, 0}
local PUTOFF = 60000

-- What is known of a job's attempts. Most pages have none of any job.
local attempted = {}
local function attemptsOf(page, index)
  local some = attempted[page]
  if some == nil then
    some = call('EXISTS', P .. 'a:' .. page) == 1
    attempted[page] = some
  end
  return some and call('HGET', P .. 'a:' .. page, index) or ''
end

local function answer(ref, topic, page, index, rec, flags, expiry)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = tonumber(ref), topic, rec
  out[n + 4] = hasBodyKey(flags) and call('GET', P .. 'b:' .. ref) or ''
  out[n + 5], out[n + 6] = attemptsOf(page, index), expiry
end

-- Nothing ready is the common case of a dispatcher that polls: it costs two commands.
if ARGV[8] ~= '1' and call('EXISTS', P .. 'q:0', P .. 'q:1', P .. 'q:2') == 0 then
  call('SET', P .. 'idle', 1, 'EX', 30)
  return out
end

local note = call('GET', P .. 'v:' .. worker)
if note and string.sub(note, 1, #token + 1) == token .. ' ' then
  for ref in string.gmatch(string.sub(note, #token + 2), '%S+') do
    if call('HGET', P .. 'tok', ref) == token then
      local page, index = placeOf(ref)
      local rec = read(page, index)
      local _, _, flags = decode(rec or '')
      if flags then answer(ref, topicOf(page), page, index, rec, flags, tonumber(call('ZSCORE', P .. 'lease', ref))) end
    end
  end
  return out
end

local busy = {}
for i = 9, #ARGV, 2 do busy[ARGV[i]] = tonumber(ARGV[i + 1]) end

-- A gate is what a topic may have of this call: left by its limits, its window, its breaker (room) and by the
-- dispatcher's own share (mine). wait is when to look again, where that is known.
local gates = {}
local function gateOf(topic)
  local g = gates[topic]
  if g then return g end
  local c = confOf(topic)
  local f = call('HMGET', P .. 'f:' .. topic, 'w', 'l', 'o', 't')
  local running = tonumber(call('HGET', P .. 'nu', topic) or 0)
  local window, last, open, tat = tonumber(f[1] or WINDOW), tonumber(f[2] or 0), tonumber(f[3] or 0), tonumber(f[4] or 0)
  if running <= 0 and now - last > 5000 then window = WINDOW end
  g = {room = window - running, mine = busy[topic] or topicMax, window = window, taken = 0}
  gates[topic] = g
  if c.paused then g.room, g.wait = 0, now + 60000 end
  if open > 0 then
    g.room = math.min(g.room, running > 0 and 0 or 1) -- one probe at a time
    if now < open then g.room, g.wait = 0, open end
  end
  if c.flight > 0 then g.room = math.min(g.room, c.flight - running) end
  if c.rate > 0 and g.room > 0 then
    local every = 1000 / c.rate
    local burst = every >= 50 and 0 or 50
    g.every, g.burst, g.tat = every, burst, math.max(tat, now)
    local tokens = floor((now + burst - g.tat) / every + 1 + 1e-9)
    if tokens <= g.room then g.room, g.paced = tokens, true end
  end
  return g
end

local leases, tokens, refs = {}, {}, {}
-- Too long a value for a listpack, in which some hundred tokens would be searched from the first on.
local TABLE = string.rep('-', 65)

local function bury(topic, ref, page, index)
  call('ZADD', P .. 'x:' .. topic, now, ref)
  call('HSET', P .. 'a:' .. page, index, '0;0;corrupt;[]')
  count('nr', topic, -1)
  count('nx', topic, 1)
  total('k', topic, 1)
end

-- A job of a newer format waits for a dispatcher of a version that knows it.
local strange
local function putOff(topic, ref, rec)
  local at = now + PUTOFF
  call('ZADD', P .. 'd:' .. topic, at, ref)
  count('nr', topic, -1)
  count('nd', topic, 1)
  event(topic, at)
  strange = {tonumber(ref), topic, rec, '', '', 0}
end

local function lease(topic, ref, page, index, rec)
  local flags, n = string.byte(rec, 13, 14)
  if not n or #rec < 14 + n then return bury(topic, ref, page, index) end
  if flags >= 32 then
    if isNewer(topic, ref, flags, string.sub(rec, 15, 14 + n)) then return putOff(topic, ref, rec) end
    return bury(topic, ref, page, index)
  end
  local ttr = own(rec, flags, 15 + n) or confOf(topic).ttr
  local expiry = now + math.min(ttr, cap) + grace
  leases[#leases + 1], leases[#leases + 2] = string.format('%d', expiry), ref
  tokens[#tokens + 1], tokens[#tokens + 2] = ref, token
  refs[#refs + 1] = ref
  answer(ref, topic, page, index, rec, flags, expiry)
  return true
end

-- The records of references: those that stand close together on a page are read at once.
local function readMany(list)
  local recs, pages, indexes = {}, {}, {}
  for k, ref in ipairs(list) do pages[k], indexes[k] = placeOf(ref) end
  local k = 1
  while k <= #list do
    local page, first, j = pages[k], indexes[k], k
    while j < #list and pages[j + 1] == page and indexes[j + 1] > indexes[j] and indexes[j + 1] <= indexes[j] + 4 do j = j + 1 end
    if j == k then
      recs[k] = read(page, first) or ''
    else
      local found = call('LRANGE', pageKey(page), first, indexes[j])
      for m = k, j do recs[m] = found[indexes[m] - first + 1] or '' end
    end
    k = j + 1
  end
  return recs, pages, indexes
end

-- Takes up to n jobs of a topic and priority; looked bounds, for each priority, the places looked at: many may be empty.
local looked = {[0] = 0, 0, 0}
local function mayLook(p) return looked[p] < 2 * wanted + 50 end
local function take(topic, p, n)
  local got = 0
  local key = P .. 'r:' .. p .. ':' .. topic
  while got < n and mayLook(p) do
    local popped = call('LPOP', key, n - got)
    if not popped then break end
    looked[p] = looked[p] + #popped
    local recs, pages, indexes = readMany(popped)
    for k, ref in ipairs(popped) do
      if recs[k] ~= '' and lease(topic, ref, pages[k], indexes[k], recs[k]) then got = got + 1 end
    end
  end
  if got > 0 then
    count('nr', topic, -got)
    count('nu', topic, got)
  end
  return got
end

-- Out of the ring until its limits can leave something again: at a known time, or when one of its calls settles (g).
local function park(topic, p, g)
  local at = g.wait
  if g.paced then at = math.max(now + 1, math.ceil(g.tat + g.taken * g.every - g.burst)) end
  if not at then
    at = now + GATED
    call('HSET', P .. 'f:' .. topic, 'g', 1)
  end
  local member = p .. ':' .. topic
  call('ZADD', P .. 'park', at, member)
  if call('ZRANK', P .. 'park', member) == 0 then wakeTimers = true end
end

-- Up to n jobs of a priority, in turn over its topics. A topic whose limits leave nothing is parked until that can have changed.
local function fetch(p, n)
  local ring = P .. 'q:' .. p
  local got = 0
  while got < n do
    local before = got
    local visits = math.min(call('LLEN', ring), 256)
    while got < n and visits > 0 and mayLook(p) do -- the topics behind are the first next time
      local topic = call('LPOP', ring)
      if not topic then break end
      local g = gateOf(topic)
      if g.room <= 0 then
        park(topic, p, g)
      else
        local k = take(topic, p, math.min(g.room, g.mine, math.ceil((n - got) / visits)))
        g.room, g.mine, g.taken, got = g.room - k, g.mine - k, g.taken + k, got + k
        if call('EXISTS', P .. 'r:' .. p .. ':' .. topic) == 1 then call('RPUSH', ring, topic) end
      end
      visits = visits - 1
    end
    if got == before then break end
  end
  return got
end

-- The pattern says how many of each priority; what one cannot use goes to the others, again by the pattern.
local pos = tonumber(call('GET', P .. 'pos') or 0)
local start, left = pos, wanted
local empty = {}
while left > 0 and not (empty['0'] and empty['1'] and empty['2']) do
  local share, n, steps = {}, 0, 0
  while n < left and steps < left * #pattern + #pattern do
    local p = string.sub(pattern, pos % #pattern + 1, pos % #pattern + 1)
    pos, steps = pos + 1, steps + 1
    if not empty[p] then
      share[p] = (share[p] or 0) + 1
      n = n + 1
    end
  end
  if n == 0 then break end
  for p = 0, 2 do
    local s = tostring(p)
    local ask = share[s] or 0
    local got = ask > 0 and fetch(p, ask) or 0
    if got < ask then empty[s] = true end
    left = left - got
  end
end

for k = 1, strange and 6 or 0 do out[#out + 1] = strange[k] end
local taken = wanted - left
if taken > 0 then
  many('ZADD', P .. 'lease', leases)
  call('HSETNX', P .. 'tok', '', TABLE)
  many('HSET', P .. 'tok', tokens)
  call('SET', P .. 'pos', (start + taken) % #pattern)
  call('SET', P .. 'v:' .. worker, token .. ' ' .. table.concat(refs, ' '), 'EX', 120)
end
for topic, g in pairs(gates) do
  if g.taken > 0 then
    local tat = g.tat and string.format('%.3f', g.tat + g.taken * g.every) or '0'
    call('HSET', P .. 'f:' .. topic, 'w', g.window, 'l', now, 't', tat)
  end
end
finish()
if left > 0 then
  if not (mayLook(0) and mayLook(1) and mayLook(2)) then out[2] = 1 end
  call('SET', P .. 'idle', 1, 'EX', 30)
end
return out
