#!lua flags=allow-oom
-- Takes ready jobs of pull topics for workers, and stores which topics workers go on waiting for.
-- KEYS[1] the bucket's prefix.
-- ARGV    name under which the answer can be repeated, token of the call, '1' to repeat it (then no job is taken),
--         pattern of priorities, number of awaited topics, for how long in ms they stay awaited, those topics; then
--         for each group of requests: token of its leases, 'listed' or 'fair', how many jobs, TTR in ms ('' the job's),
--         how many topics, its topics.
-- Returns {now; when to ask again about a topic whose rate limit is used up, in ms, else 0; the awaited topics
--         that may have more, separated by spaces; how many jobs each group got, likewise; then six for each job,
--         as reserve.lua}.
-- Keeps   invariants 1 to 4, as reserve.lua. An awaited topic is stored if no job of it can be taken now, so
--         the next job that becomes ready sends a wake-up: none goes unnoticed between two calls.
local name, callToken, marks = ARGV[1], ARGV[2], tonumber(ARGV[5])
local again, keep = ARGV[3] == '1', tonumber(ARGV[6])
out, size, reservation = {now, 0, '', ''}, 4, {callToken}

local groups, at = {}, 7 + marks
wanted = 0
while at < #ARGV do
  local n = tonumber(ARGV[at + 4])
  local r = {token = ARGV[at], listed = ARGV[at + 1] == 'listed', max = tonumber(ARGV[at + 2]), topics = {}, got = 0}
  if ARGV[at + 3] ~= '' then r.expiry = string.format('%d', now + ARGV[at + 3]) end
  for i = 1, n do r.topics[i] = ARGV[at + 4 + i] end
  groups[#groups + 1] = r
  wanted = wanted + r.max
  at = at + 5 + n
end

local function answerCounts()
  local got = {}
  for i, r in ipairs(groups) do got[i] = r.got end
  out[4] = table.concat(got, ' ')
end

if again then
  if call('GETRANGE', P .. 'v:' .. name, 0, #callToken) ~= callToken .. ' ' then
    answerCounts()
    return out
  end
  local r = 1
  for word in string.gmatch(call('GETRANGE', P .. 'v:' .. name, #callToken + 1, -1), '%S+') do
    local next = string.match(word, '^r(%d+)$') -- the group of the following references
    if next then
      r = tonumber(next)
    elseif groups[r] and answerAgain(word, groups[r].token) then
      groups[r].got = groups[r].got + 1
    end
  end
  answerAttempts()
  answerCounts()
  return out
end

-- A gate bounds the jobs of a topic in this call.
local gates = {}
local function gateOf(topic)
  local g = gates[topic]
  if g then return g end
  local c = confOf(topic)
  g = {room = (c.paused or not c.pull) and 0 or math.huge, taken = 0, none = {}}
  gates[topic] = g
  if g.room == 0 then return g end
  if c.flight > 0 then g.room = c.flight - (call('HGET', P .. 'nu', topic) or 0) end
  if c.rate > 0 then pace(g, c.rate, tonumber(call('HGET', P .. 'f:' .. topic, 't') or 0)) end
  return g
end

local function takeOf(topic, p, n)
  local g = gateOf(topic)
  n = math.min(n, g.room)
  if n <= 0 or g.none[p] then return 0 end
  local got = take(topic, p, n)
  g.room, g.taken = g.room - got, g.taken + got
  g.none[p] = got < n
  return got
end

-- Takes up to n jobs of a priority, round robin over the topics: turn has, by priority, the topic whose turn it is.
local turn, turned = nil, {}
local function inTurn(topics, p, n)
  if #topics == 1 then return takeOf(topics[1], p, n) end
  if not turn then
    local t = call('HMGET', P .. 'turn', '0', '1', '2')
    turn = {['0'] = tonumber(t[1] or 0), ['1'] = tonumber(t[2] or 0), ['2'] = tonumber(t[3] or 0)}
  end
  local got, before = 0, -1
  while got < n and got > before do
    before = got
    for i = 0, #topics - 1 do
      if got == n then break end
      local k = takeOf(topics[(turn[p] + i) % #topics + 1], p, math.ceil((n - got) / (#topics - i)))
      if k > 0 and n == 1 then turn[p] = turn[p] + i end -- its successor is the next
      got = got + k
    end
  end
  turn[p] = turn[p] + got
  turned[p] = true
  return got
end

local function serve(r, i)
  token = r.token
  function endOf(ttr) return r.expiry or string.format('%d', now + ttr) end
  reservation[#reservation + 1] = 'r' .. i
  if not r.listed then
    empty = {}
    r.got = byPattern(r.max, function(p, n) return inTurn(r.topics, p, n) end)
    return
  end
  for _, topic in ipairs(r.topics) do
    if r.got == r.max then break end
    empty = {}
    r.got = r.got + byPattern(r.max - r.got, function(p, n) return takeOf(topic, p, n) end)
  end
end

readPattern(ARGV[4])
for i, r in ipairs(groups) do serve(r, i) end
writeLeases(name)
for p in pairs(turned) do call('HSET', P .. 'turn', p, turn[p] % 65536) end
for topic, g in pairs(gates) do
  if g.taken > 0 and g.tat then
    call('HSET', P .. 'f:' .. topic, 't', tatOf(g))
    call('EXPIRE', P .. 'f:' .. topic, math.ceil(g.every * g.taken / 1000) + 60)
  end
end

-- Without a wake-up, a lease that ends before the timers poll again would end late.
if taken > 0 then
  local first = call('ZRANGE', P .. 'lease', 0, 0, 'WITHSCORES')
  if first[2] - now < 2000 then wakeTimers = true end
end
finish()

-- Stores awaited topics of which no job can be taken now, and returns those that may have one. There may be hundreds,
-- so the state of all is read at once.
local waitedFor = {}
for i = 1, marks do waitedFor[i] = ARGV[6 + i] end
local waiting = {}
if marks > 0 then
  know(waitedFor)
  waiting = ask('HMGET', P .. 'nr', waitedFor)
end

local function mayHaveMore(topic, ready)
  local g = gateOf(topic)
  if g.paced and g.room <= 0 then
    local try = pacedUntil(g)
    if out[2] == 0 or try < out[2] then out[2] = try end
  end
  if g.room <= 0 or ready <= 0 then return false end
  return call('EXISTS', P .. 'r:0:' .. topic, P .. 'r:1:' .. topic, P .. 'r:2:' .. topic) > 0
end

local more, noted = {}, {}
for i, topic in ipairs(waitedFor) do
  if mayHaveMore(topic, tonumber(waiting[i] or 0)) then
    more[#more + 1] = topic
  else
    noted[#noted + 1], noted[#noted + 2] = now + keep, topic
  end
end
if #noted > 0 then
  many('ZADD', P .. 'awaited', noted)
  call('ZREMRANGEBYSCORE', P .. 'awaited', '-inf', now)
end
out[3] = table.concat(more, ' ')
answerAttempts()
answerCounts()
return out
