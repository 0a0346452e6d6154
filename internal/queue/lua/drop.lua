#!lua flags=allow-oom
-- Deletes jobs of a topic in every state, a bounded step at a time, until none is left; finally it forgets the finished
-- ones.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many.
-- Returns {how many were deleted, 1 when more are left, revision, 1 when one of them was running: see delete.lua}.
-- Keeps   invariants 1 to 5.
local topic, limit = ARGV[1], tonumber(ARGV[2])
local n = 0
local popped = 0 -- places read from ready lists; many may be empty
local running = 0

local function drop(ref)
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec or topicOf(page) ~= topic then return end
  local state = stateOf(topic, ref, page, decode(rec))
  if state == 'u' then running = 1 end
  total(state == 'x' and 'o' or 'x', topic, 1)
  remove(topic, tonumber(ref), page, index, rec)
  n = n + 1
end

for _, key in ipairs({'x:', 'd:'}) do
  if n >= limit then break end
  for _, ref in ipairs(call('ZRANGE', P .. key .. topic, 0, limit - n - 1)) do drop(ref) end
end
for p = 0, 2 do
  local key = P .. 'r:' .. p .. ':' .. topic
  local refs = n < limit and call('LPOP', key, limit - n) or {}
  popped = popped + #refs
  for _, ref in ipairs(refs) do drop(ref) end
  if call('EXISTS', key) == 0 then leaveRing(topic, p) end
end
if n < limit then
  local page = call('ZRANGE', P .. 'pg:' .. topic, 0, 0)[1]
  if page then
    for i = 1, call('LLEN', P .. 'p:' .. page) - 1 do
      local rec = call('LINDEX', P .. 'p:' .. page, i)
      if rec and rec ~= '' then drop((page * PAGE + i) * 4 + priorityOf(rec)) end
    end
  end
end
if n == 0 then
  for _, ref in ipairs(call('ZRANGE', P .. 'lease', 0, -1)) do
    if topicOf((placeOf(ref))) == topic then drop(ref) end
  end
end
finish()
local total = 0
for _, key in ipairs({'nd', 'nr', 'nu', 'nx'}) do total = total + math.max(0, call('HGET', P .. key, topic) or 0) end
if total > 0 then return {n, n + popped > 0 and 1 or 0, revise(1), running} end
forgetTopic(topic)
for _, key in ipairs({'nd', 'nr', 'nu', 'nx'}) do call('HDEL', P .. key, topic) end
call('UNLINK', P .. 'f:' .. topic)
call('ZREM', P .. 'due', topic)
return {n, 0, revise(1), running}
