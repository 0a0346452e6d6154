#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, gate, lease.
-- Leases the first due job of all topics whose limits allow one: by due time, priority and push, and not in turns as
-- reserve.lua does. For installations whose clock stands; see standing.go.
-- KEYS[1] the bucket's prefix.
-- ARGV    token; grace after a lease, in ms; topics that are passed over.
-- Returns as reserve.lua; the third value is when the next event comes if there is no other such job (µs; -1 none).
-- Keeps   as reserve.lua. A topic without due jobs, or whose limits allow none, leaves q.
local TIES = 1000 -- jobs of a topic that are due in the same millisecond and compared by their pushes
local passed = {}
for i = 3, #ARGV do passed[ARGV[i]] = true end

-- When the first due job of a topic is due, in ms; nil if it may have none.
local function dueAt(topic, priority)
  local g = gate(topic)
  if g.room <= 0 then return park(topic, priority, g) end
  local at = head(P .. 'w:' .. priority .. ':' .. topic)
  if at and at <= DUE then return math.floor(at / 1000) end
  call('ZREM', P .. 'q:' .. priority, topic)
  if at then event(topic, at / 1000) end
end

-- Returns when the first due job is due, in ms, its priority, and the topics with due jobs of that time and priority;
-- nil if no due job may be called.
local function dueTopics()
  local ms, priority, topics = math.huge, nil, nil
  for _, p in ipairs(PRIORITIES) do
    for _, topic in ipairs(call('ZRANGE', P .. 'q:' .. p, 0, -1)) do
      local at = not passed[topic] and dueAt(topic, p) or math.huge
      if at < ms then ms, priority, topics = at, p, {} end
      if at == ms and p == priority and topics then topics[#topics + 1] = topic end
    end
  end
  return topics and ms, priority, topics
end

-- Returns the topic and id of the first job, by push, of some topics with due jobs of a time and a priority.
local function firstPushed(ms, priority, topics)
  local first, created, revision
  for _, topic in ipairs(topics) do
    local w = P .. 'w:' .. priority .. ':' .. topic
    local ids = call('ZRANGE', w, text(1000 * ms), text(1000 * ms + 999), 'BYSCORE', 'LIMIT', 0, TIES)
    for i, record in ipairs(call('HMGET', P .. 'j:' .. topic, unpack(ids))) do
      local job = parse(record) or {created = 0, revision = 0} -- taking it finds out that it is damaged
      local c, r = tonumber(job.created), tonumber(job.revision)
      if not first or c < created or c == created and r < revision then
        first, created, revision = {topic, ids[i]}, c, r
      end
    end
  end
  return first[1], first[2]
end

run.out[3] = -1
run.leases = {number = 1, token = ARGV[1], ends = function(ttr) return now + ttr + tonumber(ARGV[2]) end}
local leased, ms, priority, topics = 0, dueTopics()
if ms then begin(ARGV[1]) end
while ms and leased == 0 do -- one that cannot be leased, because it is damaged or gone, is in no set after it was taken
  local topic, id = firstPushed(ms, priority, topics)
  call('ZADD', P .. 'w:' .. priority .. ':' .. topic, text(1000 * ms - 1), id) -- before those of its millisecond
  leased = take(topic, priority, 1, gate(topic))
  ms, priority, topics = dueTopics()
end
closeGates()
local at = not ms and head(P .. 'next')
if at then run.out[3] = math.floor(at * 1000 + 0.5) end
return run.out
