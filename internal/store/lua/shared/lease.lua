-- Leases due jobs of a topic to dispatchers and workers alike: finds them in w or o, writes record and lease, and adds
-- them to the reply.
run.out, run.taken = {micros, 0}, {}

-- Adds a leased job to the reply: topic, id, record, end of the lease, body if it has a key of its own, attempts or ''.
local function answer(topic, id, job, ends, record)
  local out, n, key = run.out, #run.out, topic .. '/' .. id
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = topic, id, record, ends
  out[n + 5] = get(job, 'long') and call('GET', P .. 'b:' .. key) or ''
  out[n + 6] = tried(job) and call('LRANGE', P .. 'a:' .. key, 0, -1) or ''
end

-- Adds a job to the reply once more if its lease has the token. Returns whether it has.
local function answerAgain(topic, id, token)
  local job = find(topic, id)
  if not job or job.state ~= 'running' or get(job, 'token') ~= token then return false end
  run.out[2] = tonumber(job.revision)
  answer(topic, id, job, tonumber(call('ZSCORE', P .. 'l:' .. topic, id)), render(job))
  return true
end

local function begin(token)
  run.taken[1] = token
  run.out[2] = call('INCR', P .. 'rev')
  run.revision = text(run.out[2])
end

-- Returns the job of a record that w had if it can be leased, of any priority (nil) or of one. An expired or damaged
-- one is dead then.
local function leasable(topic, priority, id, record)
  local job = parse(record)
  if not job then return record and setAside(topic, id, record) end
  if job.state ~= 'waiting' or priority and job.priority ~= priority then return nil end
  local expires = tonumber(get(job, 'expires'))
  if not expires then return job end
  call('ZREM', P .. 'e:' .. topic, id)
  if expires > now then return job end
  expire(topic, id, job)
end

-- Leases jobs that are in no set. Returns how many, and when the first lease ends.
local function lease(topic, priority, ids)
  local leases, taken, n, first, records, entries = run.leases, run.taken, 0, math.huge, {}, {}
  if #ids == 0 then return n, first end
  local ttr, ordered = settings(topic).ttr, settings(topic).order
  local usual = leases.ends(ttr)
  local usualText, token = text(usual), ' token=' .. leases.token
  for i, record in ipairs(call('HMGET', P .. 'j:' .. topic, unpack(ids))) do
    if ordered then leaveOrder(topic, ids[i]) end
    local id, job = ids[i], leasable(topic, priority, ids[i], record)
    if job then
      local own = get(job, 'ttr')
      local ends = own and leases.ends(tonumber(own)) or usual
      job.state, job.revision = 'running', run.revision
      n, first = n + 1, math.min(first, ends)
      records[2 * n - 1], records[2 * n] = id, render(job, token)
      entries[2 * n - 1], entries[2 * n] = own and text(ends) or usualText, id
      taken[#taken + 1], taken[#taken + 2], taken[#taken + 3] = leases.number, topic, id
      answer(topic, id, job, ends, records[2 * n])
    end
  end
  if n == 0 then return n, first end
  call('HSET', P .. 'j:' .. topic, unpack(records))
  call('ZADD', P .. 'l:' .. topic, unpack(entries))
  return n, first
end

-- Takes up to n due jobs of a topic, as its limits allow: the first in its own order, whatever their priority, and then
-- those of a priority. Returns how many, and when the next one of the priority is due, in µs.
local function take(topic, priority, n, limits)
  n = math.min(n, limits.room)
  local w, ids = P .. 'w:' .. priority .. ':' .. topic, settings(topic).order and takeInOrder(topic, n) or {}
  local k, first = lease(topic, nil, ids)
  n = n - #ids
  ids = n > 0 and call('ZRANGE', w, '-inf', text(DUE), 'BYSCORE', 'LIMIT', 0, n) or {}
  if #ids > 0 then call('ZREM', w, unpack(ids)) end
  local more, ends = lease(topic, priority, ids)
  k, first = k + more, math.min(first, ends)
  local due = head(w)
  if due and due > DUE then first = math.min(first, turnOf(due)) end
  if first < math.huge then event(topic, first) end
  limits.room, limits.taken = limits.room - k, limits.taken + k
  return k, due
end

local function finish(name)
  closeGates()
  if #run.taken > 1 then call('SET', P .. 'v:' .. name, table.concat(run.taken, '\n'), 'EX', 120) end
end
