#!lua flags=allow-oom
-- Postpones ready jobs of a topic that no dispatcher takes, so that they can be moved to another shard: all jobs if the
-- topic is paused, its breaker is open or its jobs have had no event for long, otherwise those that have waited long
-- without an attempt.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many, what counts as long in ms, by how much in ms.
-- Returns how many.
-- Keeps   invariants 1 to 4.
local READ = 2000 -- places read, many of which may be empty
local topic, limit, long, off = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local open = call('HGET', P .. 'f:' .. topic, 'o')
local idle = confOf(topic).paused or tonumber(open or 0) > 0 or now - (call('ZSCORE', P .. 'act', topic) or 0) > long

local function stuck(page, index, rec)
  local due = decode(rec)
  if not due or now - due < long then return false end
  return idle or call('HEXISTS', P .. 'a:' .. page, index) == 0
end

local n, left = 0, READ
for p = 0, 2 do
  local key = P .. 'r:' .. p .. ':' .. topic
  while n < limit and left > 0 do
    local ref = call('LINDEX', key, 0)
    if not ref then break end
    left = left - 1
    local page, index = placeOf(ref)
    local rec = read(page, index)
    if rec and not stuck(page, index, rec) then break end
    call('LPOP', key)
    if rec then
      call('ZADD', P .. 'd:' .. topic, now + off + n, ref)
      n = n + 1
    end
  end
  if call('EXISTS', key) == 0 then leaveRing(topic, p) end
end
if n > 0 then
  count('nr', topic, -n)
  count('nd', topic, n)
  event(topic, now + off)
end
finish()
return n
