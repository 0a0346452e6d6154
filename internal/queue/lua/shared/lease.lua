-- Leases waiting jobs.
run.out, run.taken = {micros, 0}, {}

-- Answers a leased job: topic, id, record, end of the lease, body if it has a key of its own, attempts or ''.
local function answer(topic, id, record, ends, attempts, more)
  local out, n, key = run.out, #run.out, topic .. '/' .. id
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5], out[n + 6] = topic, id, record, ends, '', ''
  if more == '' and attempts == '0' then return end
  if pair(more, 'long') then out[n + 5] = call('GET', P .. 'b:' .. key) end
  if hasList(attempts, more) then out[n + 6] = call('LRANGE', P .. 'a:' .. key, 0, -1) end
end

local function begin(token)
  run.taken[1] = token
  run.out[2] = call('INCR', P .. 'rev')
  run.revision = text(run.out[2])
end

-- Leases a job that is in no set, from what its record has besides its state and revision: priority, due time and
-- creation; attempts; pairs; the rest. The caller writes its record, and its entry in l. Returns the record and the
-- end.
local function lease(topic, id, front, attempts, more, rest)
  local leases, taken = run.leases, run.taken
  local ends = leases.ends(tonumber(pair(more, 'ttr')) or settings(topic).ttr)
  local record = joined('running', front, attempts, run.revision, more .. ' token=' .. leases.token .. rest)
  taken[#taken + 1], taken[#taken + 2], taken[#taken + 3] = leases.number, topic, id
  answer(topic, id, record, ends, attempts, more)
  return record, ends
end

-- Leases one of the jobs that w had, of any priority (nil) or of one; returns its record and the end, or nil.
local function try(topic, priority, id, record)
  if settings(topic).order then leaveOrder(topic, id) end
  local front, attempts, more, rest = string.match(record or '', WAITING)
  if not front or priority and string.find(front, priority .. ' ', 1, true) ~= 1 then
    return record and not parse(record) and setAside(topic, id, record)
  end
  local expires = tonumber(pair(more, 'expires'))
  if expires then call('ZREM', P .. 'e:' .. topic, id) end
  if expires and expires <= now then
    expire(topic, id, parse(record))
    return nil
  end
  return lease(topic, id, front, attempts, more, rest)
end

-- Leases jobs that are in w no more. Returns how many, and when the first lease ends.
local function leaseAll(topic, priority, ids)
  local got, first, records, entries = 0, math.huge, {}, {}
  if #ids == 0 then return got, first end
  for i, record in ipairs(call('HMGET', P .. 'j:' .. topic, unpack(ids))) do
    local running, ends = try(topic, priority, ids[i], record)
    if running then
      got, first = got + 1, math.min(first, ends)
      records[2 * got - 1], records[2 * got] = ids[i], running
      entries[2 * got - 1], entries[2 * got] = text(ends), ids[i]
    end
  end
  if got > 0 then
    call('HSET', P .. 'j:' .. topic, unpack(records))
    call('ZADD', P .. 'l:' .. topic, unpack(entries))
  end
  return got, first
end

-- Takes up to n due jobs of a topic: the first in its own order, whatever their priority, and then those of a priority.
-- Returns how many, and when the next one of the priority is due, in µs.
local function take(topic, priority, n)
  local w, got, first = P .. 'w:' .. priority .. ':' .. topic, 0, math.huge
  if settings(topic).order then
    local ids = takeInOrder(topic, n)
    got, first = leaseAll(topic, nil, ids)
    n = n - #ids
  end
  local ids = n > 0 and call('ZRANGE', w, '-inf', text(micros), 'BYSCORE', 'LIMIT', 0, n) or {}
  if #ids > 0 then
    call('ZREM', w, unpack(ids))
    local more, ends = leaseAll(topic, priority, ids)
    got, first = got + more, math.min(first, ends)
  end
  local due = head(w)
  if due and due > micros then first = math.min(first, due / 1000) end
  if first < math.huge then event(topic, first) end
  return got, due
end

local function finish(name)
  closeGates()
  if #run.taken > 1 then call('SET', P .. 'v:' .. name, table.concat(run.taken, '\n'), 'EX', 120) end
end
