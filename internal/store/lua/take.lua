#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, gate, lease, again,
-- pattern, serve.
-- Leases due jobs of pull topics to workers, and stores which topics workers go on waiting for.
-- KEYS[1] the bucket's prefix.
-- ARGV    name under which the answer can be repeated; token of the call; '1' to repeat it (then no job is taken);
--         pattern of priorities; number of awaited topics; for how long in ms they stay awaited; those topics; then for
--         each request: token of its leases, 'listed', 'fair' or 'ordered', how many jobs, TTR in ms ('' the job's),
--         how many topics, its topics.
-- Returns {now in µs; revision of the leases; when to ask again about a topic whose rate limit is used up, in ms, else
--         0; awaited topics that may have more, a list; how many jobs each request got, a list; then for each job: six
--         values, see answer in shared/lease.lua}.
-- Keeps   as reserve.lua. An awaited topic is stored when no job of it can be taken now, so the next one sends a
--         wake-up.
local name, token, marks, keep = ARGV[1], ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6])
local requests, tokens, got, more = {}, {}, {}, {}
local out = run.out
out[3], out[4], out[5] = 0, more, got
local at = 7 + marks
while at < #ARGV do
  local r = {token = ARGV[at], listed = ARGV[at + 1] ~= 'fair', ordered = ARGV[at + 1] == 'ordered',
    max = tonumber(ARGV[at + 2]), ttr = tonumber(ARGV[at + 3]), topics = {unpack(ARGV, at + 5, at + 4 + ARGV[at + 4])}}
  requests[#requests + 1], tokens[#tokens + 1], got[#got + 1] = r, r.token, 0
  at = at + 5 + #r.topics
end
if ARGV[3] == '1' then
  repeated(name, token, tokens, got)
  return out
end
begin(token)

local function never() return false end
for i, r in ipairs(requests) do
  local ready = {}
  for _, topic in ipairs(r.topics) do
    if hasDue(topic) then ready[#ready + 1] = topic end
  end
  run.leases = {number = i, token = r.token, ends = function(ttr) return now + (r.ttr or ttr) end}
  if r.ordered then got[i] = inOrder(ready, r.max) end
  local serve = r.listed and takeOf or inTurn
  for _, topics in ipairs(r.listed and ready or {#ready > 0 and ready or nil}) do
    local function fetch(priority, n) return serve(topics, priority, n) end
    if got[i] < r.max then got[i] = got[i] + byPattern(ARGV[4], r.max - got[i], never, fetch) end
  end
end

local function mayHaveMore(topic)
  if not hasDue(topic) then return false end
  local g = gate(topic, true)
  if g.paced and g.room <= 0 then
    local try = pacedUntil(g)
    if out[3] == 0 or try < out[3] then out[3] = try end
  end
  return g.room > 0
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
  call('PEXPIRE', P .. 'awaited', keep)
end
finish(name)
return out
