#!lua flags=allow-oom
-- With: deadline, record, topic, totals, wait, remove, dead, describe, gate, lease, again, pattern.
-- Leases due jobs of pull topics to workers, and stores which topics workers go on waiting for.
-- KEYS[1] the bucket's prefix.
-- ARGV    name under which the answer can be repeated; token of the call; '1' to repeat it (then no job is taken);
--         pattern of priorities; number of awaited topics; for how long in ms they stay awaited; those topics; then for
--         each request: token of its leases, 'listed' or 'fair', how many jobs, TTR in ms ('' the job's), how many
--         topics, its topics.
-- Returns {now in µs; revision of the leases; when to ask again about a topic whose rate limit is used up, in ms, else
--         0; awaited topics that may have more, a list; how many jobs each request got, a list; then for each job: six
--         values, see answer in shared/lease.lua}.
-- Keeps   as reserve.lua. An awaited topic is stored when no job of it can be taken now, so the next one sends a
--         wake-up.
local name, token, marks, keep = ARGV[1], ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6])
local requests, tokens, got, more = {}, {}, {}, {}
out[3], out[4], out[5] = 0, more, got
local at = 7 + marks
while at < #ARGV do
  local r = {token = ARGV[at], listed = ARGV[at + 1] == 'listed', max = tonumber(ARGV[at + 2]),
    ttr = tonumber(ARGV[at + 3]), topics = {}}
  for i = 1, ARGV[at + 4] do r.topics[i] = ARGV[at + 4 + i] end
  requests[#requests + 1], tokens[#tokens + 1], got[#got + 1] = r, r.token, 0
  at = at + 5 + #r.topics
end
if ARGV[3] == '1' then
  again(name, token, tokens, got)
  return out
end
begin(token)

local function takeOf(topic, priority, n)
  local g = gate(topic, true)
  if g.room <= 0 then return 0 end
  local k = take(topic, priority, math.min(n, g.room))
  g.room, g.taken = g.room - k, g.taken + k
  return k
end

-- Takes up to n jobs of a priority, round robin over the topics; turns has the topic whose turn it is.
local turns = {high = 0, normal = 0, low = 0}
for i, turn in ipairs(call('HMGET', P .. 'turns', unpack(PRIORITIES))) do turns[PRIORITIES[i]] = turn or 0 end
local function inTurn(topics, priority, n)
  local k, before, last = 0, -1, turns[priority]
  while k < n and k > before do
    before = k
    for i = 0, #topics - 1 do
      local at = (turns[priority] + i) % #topics + 1
      local some = k < n and takeOf(topics[at], priority, math.ceil((n - k) / (#topics - i))) or 0
      if some > 0 then k, last = k + some, at end -- its successor is the next
    end
  end
  turns[priority] = last
  return k
end

local function never() return false end
for i, r in ipairs(requests) do
  leases = {number = i, token = r.token, ends = function(ttr) return now + (r.ttr or ttr) end}
  for _, topics in ipairs(r.listed and r.topics or {r.topics}) do
    local function fetch(priority, n)
      if r.listed then return takeOf(topics, priority, n) end
      return inTurn(topics, priority, n)
    end
    if got[i] < r.max then got[i] = got[i] + byPattern(ARGV[4], r.max - got[i], never, fetch) end
  end
end
for priority, turn in pairs(turns) do call('HSET', P .. 'turns', priority, turn) end

local function mayHaveMore(topic)
  local w = P .. 'w:'
  if call('EXISTS', w .. 'high:' .. topic, w .. 'normal:' .. topic, w .. 'low:' .. topic) == 0 then return false end
  local g = gate(topic, true)
  if g.paced and g.room <= 0 then
    local try = pacedUntil(g)
    if out[3] == 0 or try < out[3] then out[3] = try end
  end
  if g.room <= 0 then return false end
  for _, priority in ipairs(PRIORITIES) do
    if (head(P .. 'w:' .. priority .. ':' .. topic) or math.huge) <= micros then return true end
  end
end

local awaited = {}
for i = 7, 6 + marks do
  if mayHaveMore(ARGV[i]) then
    more[#more + 1] = ARGV[i]
  else
    awaited[#awaited + 1], awaited[#awaited + 2] = now + keep, ARGV[i]
  end
end
if #awaited > 0 then
  for i = 1, #awaited, 1000 do call('ZADD', P .. 'awaited', unpack(awaited, i, math.min(i + 999, #awaited))) end
  call('ZREMRANGEBYSCORE', P .. 'awaited', '-inf', now)
end
finish(name)
return out
