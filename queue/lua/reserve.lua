#!lua flags=allow-oom
-- Reserves ready jobs under leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    worker, token, how many, pattern of priorities, most of one topic, cap of the first lease in ms, grace in
--         ms, '1' when the token is asked again, then pairs (topic, how many more of it).
-- Returns {now, 1 when it stopped at empty places and there may be more, else 0; TOPIC/ID of one of the jobs that
--         were put off since their format is newer, or ''; then six of each job: topic, lease's end, reference,
--         record, value of its body key or '', attempts or ''}.
-- Keeps   invariants 1 to 4: a job leaves its ready list and gets its lease in this one step. The reservation is
--         stored under the worker's name, so the same token asked again returns the same jobs (those still leased
--         under it).
local byte = string.byte
local worker, token, wanted, pattern = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local topicMax, cap, grace = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local out, size = {now, 0, ''}, 3
local PUTOFF = 60000
local PRIORITIES = {'0', '1', '2'} -- as text: they are parts of keys

local attempted = {} -- by page: whether one of its jobs has had an attempt; most have not
local function attemptsAt(page, index)
  if attempted[page] == nil then attempted[page] = call('EXISTS', P .. 'a:' .. page) == 1 end
  return attempted[page] and call('HGET', P .. 'a:' .. page, index) or ''
end

local function answer(ref, topic, page, index, rec, flags, expiry)
  out[size + 1], out[size + 2], out[size + 3], out[size + 4] = topic, tonumber(expiry), ref, rec
  out[size + 5] = hasBodyKey(flags) and call('GET', P .. 'b:' .. ref) or ''
  out[size + 6] = attemptsAt(page, index)
  size = size + 6
end

-- When a dispatcher polls, mostly nothing is ready: that costs two commands.
local rings = call('EXISTS', P .. 'q:0', P .. 'q:1', P .. 'q:2')
if ARGV[8] ~= '1' and rings == 0 then
  call('SET', P .. 'idle', 1, 'EX', 30)
  return out
end

if call('GETRANGE', P .. 'v:' .. worker, 0, #token) == token .. ' ' then
  for ref in string.gmatch(call('GETRANGE', P .. 'v:' .. worker, #token + 1, -1), '%S+') do
    if call('HGET', P .. 'tok', ref) == token then
      local page, index = placeOf(ref)
      local rec = read(page, index)
      local _, _, flags = decode(rec or '')
      if flags then answer(ref, topicOf(page), page, index, rec, flags, call('ZSCORE', P .. 'lease', ref)) end
    end
  end
  return out
end

local busy = {}
for i = 9, #ARGV, 2 do busy[ARGV[i]] = tonumber(ARGV[i + 1]) end

-- A gate is what a topic may have of this call: what its limits, window and breaker leave (room) and the dispatcher's
-- own share (mine). wait is when to check again, where that is known.
local gates = {}
local function gateOf(topic)
  local g = gates[topic]
  if g then return g end
  local c = confOf(topic)
  local f = call('HMGET', P .. 'f:' .. topic, 'w', 'l', 'o', 't')
  local running = tonumber(call('HGET', P .. 'nu', topic) or 0)
  local window, last = tonumber(f[1] or WINDOW), tonumber(f[2] or 0)
  local open, tat = tonumber(f[3] or 0), tonumber(f[4] or 0)
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

-- When a lease ends, as text, which is made once for each TTR.
local ends = {}
local function endOf(ttr)
  local e = ends[ttr]
  if not e then
    e = string.format('%d', now + math.min(ttr, cap) + grace)
    ends[ttr] = e
  end
  return e
end

local leases, reservation, taken = {}, {token}, 0 -- leases are ends and refs, as ZADD takes them

-- A record that cannot be read: dead when it is damaged; one of a newer format waits for a dispatcher that knows the
-- format.
local function setAside(topic, ref, page, index, rec)
  local _, _, flags, id, rest = decode(rec)
  count('nr', topic, -1)
  if not rest and isNewer(topic, ref, flags, id) then
    local at = now + PUTOFF
    call('ZADD', P .. 'd:' .. topic, at, ref)
    count('nd', topic, 1)
    event(topic, at)
    out[3] = topic .. '/' .. id
    return
  end
  call('ZADD', P .. 'x:' .. topic, now, ref)
  writeAttempts(page, index, 0, 0, 'corrupt', '[]')
  count('nx', topic, 1)
  total('k', topic, 1)
end

-- usual is when a lease of the topic ends.
local function lease(topic, ref, page, index, rec, usual)
  local flags, length = byte(rec, 13, 14)
  if not length or #rec < 14 + length or flags >= NEWER then
    setAside(topic, ref, page, index, rec)
    return false
  end
  local expiry = flags < 8 and usual or endOf(own(rec, flags, 15 + length) or confOf(topic).ttr)
  leases[2 * taken + 1], leases[2 * taken + 2] = expiry, ref
  taken = taken + 1
  reservation[taken + 1] = ref
  answer(ref, topic, page, index, rec, flags, expiry)
  return true
end

-- Leases those of a topic's jobs that are still there, and returns how many.
local function leaseAll(topic, list)
  local usual, got = endOf(confOf(topic).ttr), 0
  for _, ref in ipairs(list) do
    local page, index = placeOf(ref)
    local rec = read(page, index)
    if rec and lease(topic, ref, page, index, rec, usual) then got = got + 1 end
  end
  return got
end

-- Takes up to n jobs of a topic and priority. The places read are bounded for each priority, since many may be empty.
local visited = {['0'] = 0, ['1'] = 0, ['2'] = 0}
local function mayRead(p) return visited[p] < 2 * wanted + 50 end
local function take(topic, p, n)
  local got = 0
  local key = P .. 'r:' .. p .. ':' .. topic
  while got < n and mayRead(p) do
    local popped = call('LPOP', key, n - got)
    if not popped then break end
    visited[p] = visited[p] + #popped
    got = got + leaseAll(topic, popped)
  end
  if got > 0 then
    count('nr', topic, -got)
    count('nu', topic, got)
  end
  return got
end

-- Takes a topic out of the ring until its limits may leave something: at a known time, or when one of its calls is
-- settled (g).
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

-- Reserves up to n jobs of a priority, in turn over its topics. A topic whose limits leave nothing is parked.
local function fetch(p, n)
  local ring = P .. 'q:' .. p
  local got = 0
  while got < n do
    local before = got
    local visits = math.min(call('LLEN', ring), 256)
    while got < n and visits > 0 and mayRead(p) do -- the topics left are the first next time
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

-- The pattern says how many jobs each priority gets; what one cannot use goes to the others, again by the pattern. A
-- priority whose ring is empty is left out from the beginning: asking the others a second time costs more than this
-- check.
local start = tonumber(call('GET', P .. 'pos') or 0)
local pos, left = start, wanted
local order, weight, empty = {}, {['0'] = 0, ['1'] = 0, ['2'] = 0}, {}
for i = 1, #pattern do
  local p = string.sub(pattern, i, i)
  order[i], weight[p] = p, weight[p] + 1
end
for _, p in ipairs(rings < 3 and PRIORITIES or {}) do empty[p] = call('EXISTS', P .. 'q:' .. p) == 0 end

-- How many of the next n jobs each priority gets that is not empty; nil when all are.
local function shares(n)
  local share, round = {}, 0
  for p, w in pairs(weight) do
    if not empty[p] then round = round + w end
  end
  if round == 0 then return nil end
  local rounds = floor(n / round)
  for p, w in pairs(weight) do share[p] = empty[p] and 0 or rounds * w end
  n = n - rounds * round
  while n > 0 do
    local p = order[pos % #order + 1]
    pos = pos + 1
    if not empty[p] then share[p], n = share[p] + 1, n - 1 end
  end
  return share
end

while left > 0 do
  local share = shares(left)
  if not share then break end
  for _, p in ipairs(PRIORITIES) do
    local ask = share[p]
    local got = ask > 0 and fetch(p, ask) or 0
    if got < ask then empty[p] = true end
    left = left - got
  end
end

if taken > 0 then
  call('ZADD', P .. 'lease', unpack(leases))
  for i = 1, 2 * taken + 1, 2 do leases[i] = token end -- from the second on: references and their token, for HSET
  leases[2 * taken + 2], leases[2 * taken + 3] = '', TABLE
  call('HSET', P .. 'tok', unpack(leases, 2))
  call('SET', P .. 'pos', (start + taken) % #pattern)
  call('SET', P .. 'v:' .. worker, table.concat(reservation, ' '), 'EX', 120)
end
for topic, g in pairs(gates) do
  if g.taken > 0 then
    local tat = g.tat and string.format('%.3f', g.tat + g.taken * g.every) or '0'
    call('HSET', P .. 'f:' .. topic, 'w', g.window, 'l', now, 't', tat)
  end
end
finish()
if left > 0 then
  if not (mayRead('0') and mayRead('1') and mayRead('2')) then out[2] = 1 end
  call('SET', P .. 'idle', 1, 'EX', 30)
end
return out
