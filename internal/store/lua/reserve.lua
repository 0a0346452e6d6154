#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, gate, lease, again,
-- pattern.
-- Leases due jobs to a dispatcher, in the order of the pattern of priorities, round robin over the topics of each.
-- KEYS[1] the bucket's prefix.
-- ARGV    dispatcher; token; how many; pattern; most of one topic; cap of a lease and grace after it, in ms; '1' when
--         the token was sent before; pairs (topic, how many more of it).
-- Returns {now in µs, revision of the leases (0 none), 1 when it stopped at topics without due jobs and there may be
--         more, then for each job: six values, see answer in shared/lease.lua}.
-- Keeps   a job leaves w and enters l in this one step. The same token again returns the same jobs.
local TURNS = 32 -- topics that are visited before one is visited again
local name, token, wanted, topicMax = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local cap, grace, busy = tonumber(ARGV[6]), tonumber(ARGV[7]), {}
for i = 9, #ARGV, 2 do busy[ARGV[i]] = tonumber(ARGV[i + 1]) end
local out = run.out
out[3] = 0
if ARGV[8] == '1' and repeated(name, token, {token}, {0}) then return out end
if call('EXISTS', P .. 'q:high', P .. 'q:normal', P .. 'q:low') == 0 then
  call('SET', P .. 'idle', 1)
  return out
end
begin(token)
run.leases = {number = 1, token = token, ends = function(ttr) return now + math.min(ttr, cap) + grace end}

-- Takes up to n jobs of a topic. It stays in q, behind all others, while it has due jobs and its limits allow more.
-- Returns how many, and whether it has more, but none for this dispatcher.
local function visit(topic, priority, n)
  local g = gate(topic)
  if g.room <= 0 then
    park(topic, priority, g)
    return 0
  end
  g.mine = g.mine or busy[topic] or topicMax
  local k, due = take(topic, priority, math.min(g.mine, n), g)
  g.mine = g.mine - k
  if due and due <= DUE then
    call('ZADD', P .. 'q:' .. priority, call('INCR', P .. 'turn'), topic)
  else
    call('ZREM', P .. 'q:' .. priority, topic)
  end
  return k, g.mine <= 0 and due and due <= DUE
end

-- At most: topics may have no due job, since it was deleted, or none for this dispatcher.
local visits = 2 * wanted + TURNS + (#ARGV - 8) / 2
local function fetch(priority, n)
  local got, q, passed = 0, P .. 'q:' .. priority, nil -- the first topic since the last job that has none for us
  while got < n and visits > 0 do
    local names = call('ZRANGE', q, 0, math.min(TURNS, n - got) - 1)
    if #names == 0 then break end
    for i, topic in ipairs(names) do
      if got < n then
        if topic == passed then return got end
        local k, others = visit(topic, priority, math.ceil((n - got) / (#names - i + 1)))
        got = got + k
        if k > 0 then passed = nil else passed = passed or others and topic end
      end
    end
    visits = visits - #names
  end
  return got
end

if byPattern(ARGV[4], wanted, function(p) return call('EXISTS', P .. 'q:' .. p) == 0 end, fetch) < wanted then
  call('SET', P .. 'idle', 1)
  if visits <= 0 then out[3] = 1 end
end
finish(name)
return out
