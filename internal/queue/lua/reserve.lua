#!lua flags=allow-oom
-- Reserves ready jobs under leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    worker, token, how many, pattern of priorities, most of one topic, cap of the first lease in ms, grace in
--         ms, '1' when the token was sent before, then pairs (topic, how many more of it).
-- Returns {now, 1 when it stopped at empty places and there may be more, else 0; revision of the reservation, 0 of
--         one without jobs; then six for each job: topic, lease's end, reference, record, value of its body key or
--         '', attempts or ''}.
-- Keeps   invariants 1 to 4: a job leaves its ready list and gets its lease in this one step. The reservation is
--         stored under the worker's name, so the same token sent again returns the same jobs (those still leased
--         under it). The token of the leases is the given one, a colon and the reservation's revision, which
--         orders the journal's line of a delivery, written before the lease ends (see replay.lua).
local worker, topicMax, cap, grace = ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
token, wanted = ARGV[2], tonumber(ARGV[3])
out, size = {now, 0, 0}, 3

-- When a dispatcher polls, usually no job is ready: then two commands are enough.
local rings = call('EXISTS', P .. 'q:0', P .. 'q:1', P .. 'q:2')
if ARGV[8] ~= '1' and rings == 0 then
  call('SET', P .. 'idle', 1)
  return out
end

if call('GETRANGE', P .. 'v:' .. worker, 0, #token) == token .. ':' then
  local revision, refs = string.match(call('GETRANGE', P .. 'v:' .. worker, #token + 1, -1), '^(%d+)(.*)$')
  out[3] = tonumber(revision)
  for ref in string.gmatch(refs, '%S+') do answerAgain(ref, token .. ':' .. revision) end
  answerAttempts()
  return out
end
out[3] = revise(1)
token = token .. string.format(':%d', out[3])
reservation = {token}

local busy = {}
for i = 9, #ARGV, 2 do busy[ARGV[i]] = tonumber(ARGV[i + 1]) end

-- A gate bounds the jobs of a topic in this call: by its limits, window and breaker (room) and by the dispatcher's own
-- bound (mine). wait is when to check again, if known.
local gates, running, noted = {}, {}, {} -- noted: the topics that have f:TOPIC
local function gateOf(topic)
  local g = gates[topic]
  if g then return g end
  local c = confOf(topic)
  local f = noted[topic] and call('HMGET', P .. 'f:' .. topic, 'w', 'l', 'o', 't') or {}
  local running = tonumber(running[topic])
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
  if c.rate > 0 and g.room > 0 then pace(g, c.rate, tat) end
  return g
end

-- By TTR: when a lease ends, as text.
local ends = {}
function endOf(ttr)
  local e = ends[ttr]
  if not e then
    e = string.format('%d', now + math.min(ttr, cap) + grace)
    ends[ttr] = e
  end
  return e
end

-- Takes a topic out of the ring until its limits may allow a job: at a known time, or when one of its calls is settled
-- (g).
local function park(topic, p, g)
  local at = g.wait
  if g.paced then at = pacedUntil(g) end
  if not at then
    at = now + GATED
    call('HSET', P .. 'f:' .. topic, 'g', 1)
  end
  local member = p .. ':' .. topic
  call('ZADD', P .. 'park', at, member)
  if call('ZRANK', P .. 'park', member) == 0 then wakeTimers = true end
end

-- Takes up to n jobs of a topic from the ring. Returns how many, and whether the topic stays in the ring if its list is
-- not empty.
local function visit(topic, p, n)
  local g = gateOf(topic)
  if confOf(topic).pull then -- it has just become a pull topic
    told[topic] = true
    return 0, false
  end
  if g.room <= 0 then
    park(topic, p, g)
    return 0, false
  end
  local k, over = take(topic, p, math.min(g.room, g.mine, n))
  g.room, g.mine, g.taken = g.room - k, g.mine - k, g.taken + k
  return k, not over
end

-- Puts visited topics whose lists are not empty back into the ring.
local function rejoin(ring, p, names)
  local have, stay = having('r:' .. p .. ':', names), {}
  for _, topic in ipairs(names) do
    if have[topic] then stay[#stay + 1] = topic end
  end
  many('RPUSH', ring, stay)
end

-- Reserves up to n jobs of a priority, round robin over its topics. A topic whose limits allow no job is parked. When
-- many topics have ready jobs, a turn may take n/TURNS of one: a topic costs Redis as much as a job.
local TURNS = 32
local function fetch(p, n)
  local ring = P .. 'q:' .. p
  local got = 0
  while got < n do
    local before = got
    local visits = math.min(call('LLEN', ring), TURNS)
    while got < n and visits > 0 and mayRead(p) do
      local names = call('LPOP', ring, math.min(visits, n - got))
      if not names then break end
      know(names, 'nu', running)
      local ready = ask('HMGET', P .. 'nr', names)
      for topic in pairs(having('f:', names)) do noted[topic] = true end
      local empty, more, first = {}, {}, {} -- by their counts; first: those that are no longer visited
      for i, topic in ipairs(names) do
        if mayRead(p) then
          local k, may = visit(topic, p, math.ceil((n - got) / visits))
          got, visits = got + k, visits - 1
          local list = k < (tonumber(ready[i]) or 0) and more or empty
          if may then list[#list + 1] = topic end
        else
          table.insert(first, 1, topic)
        end
      end
      rejoin(ring, p, empty)
      rejoin(ring, p, more)
      many('LPUSH', ring, first)
    end
    if got == before then break end
  end
  return got
end

-- Checking which rings are empty costs less than asking the others a second time.
readPattern(ARGV[4])
for _, p in ipairs(rings < 3 and PRIORITIES or {}) do empty[p] = call('EXISTS', P .. 'q:' .. p) == 0 end
local left = wanted - byPattern(wanted, fetch)

writeLeases(worker)
for topic, g in pairs(gates) do
  if g.taken > 0 and (noted[topic] or g.tat) then -- other topics have the initial window
    call('HSET', P .. 'f:' .. topic, 'w', g.window, 'l', now, 't', tatOf(g))
  end
end
answerAttempts()
finish()
if left > 0 then
  if not (mayRead('0') and mayRead('1') and mayRead('2')) then out[2] = 1 end
  call('SET', P .. 'idle', 1)
end
return out
