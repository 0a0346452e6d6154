-- Leases waiting jobs.
local out = {micros, 0}
local taken = {} -- the token of the call, then for each leased job: number of its request, topic, id
local leases     -- of the request that is served: number, token, and the function that gives the end by TTR

-- Answers a leased job: topic, id, record, end of the lease, body if it has a key of its own, attempts or ''.
local function answer(topic, id, ends, job)
  local n, key = #out, topic .. '/' .. id
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5], out[n + 6] = topic, id, job.record, ends, '', ''
  if get(job, 'long') then out[n + 5] = call('GET', P .. 'b:' .. key) end
  if tried(job) then out[n + 6] = call('LRANGE', P .. 'a:' .. key, 0, -1) end
end

-- Answers the jobs again that an earlier call leased under its token, with what each request's leases have as token.
-- Returns whether it found that call.
local function again(name, token, tokens, got)
  local stored = call('GET', P .. 'v:' .. name)
  if not stored or string.sub(stored, 1, #token + 1) ~= token .. '\n' then return false end
  for number, topic, id in string.gmatch(stored .. '\n', '\n(%d+)\n([^\n]+)\n([^\n]+)%f[\n]', #token) do
    local job, n = find(topic, id), tonumber(number)
    if job and job.state == 'running' and get(job, 'token') == tokens[n] then
      out[2] = tonumber(job.revision)
      answer(topic, id, tonumber(call('ZSCORE', P .. 'l:' .. topic, id)), job)
      if got then got[n] = got[n] + 1 end
    end
  end
  return true
end

local function begin(token)
  taken[1] = token
  out[2] = call('INCR', P .. 'rev')
end

-- Leases a job that is in no set; the caller writes its record, and its entry in l. Returns the end.
local function lease(topic, id, job)
  local ends = leases.ends(tonumber(get(job, 'ttr')) or settings(topic).ttr)
  job.state, job.revision = 'running', text(out[2])
  job.more = job.more .. ' token=' .. leases.token
  render(job)
  taken[#taken + 1], taken[#taken + 2], taken[#taken + 3] = leases.number, topic, id
  answer(topic, id, ends, job)
  return ends
end

-- A damaged record becomes the body of a dead job, so that people see it, unless the body has a key of its own.
local function setAside(topic, id, record)
  local head = 'dead normal ' .. text(now) .. ' ' .. text(now) .. ' 0 0 reason=corrupt'
  if call('EXISTS', P .. 'b:' .. topic .. '/' .. id) == 1 then head = head .. ' long=1' end
  if call('EXISTS', P .. 'a:' .. topic .. '/' .. id) == 1 then head = head .. ' tried=1' end
  call('HSET', P .. 'j:' .. topic, id, head .. '\n' .. record)
  call('ZADD', P .. 'dead:' .. topic, micros, id)
  count(topic, 'died', 1)
end

-- Leases one of the jobs that w had; returns the end and the job, or nil.
local function try(topic, priority, id, record)
  local job = parse(record)
  if not job then return record and setAside(topic, id, record) end
  if job.state ~= 'waiting' or job.priority ~= priority then return nil end
  local expires = tonumber(get(job, 'expires'))
  if expires then call('ZREM', P .. 'e:' .. topic, id) end
  if expires and expires <= now then
    expire(topic, id, job)
    return nil
  end
  return lease(topic, id, job), job
end

-- Takes up to n due jobs of a topic and priority. Returns how many, and when the next one there is due, in µs.
local function take(topic, priority, n)
  local w, ids, due, got, first = P .. 'w:' .. priority .. ':' .. topic, {}, nil, 0, math.huge
  local waiting = call('ZRANGE', w, 0, n, 'WITHSCORES')
  for i = 1, #waiting, 2 do
    due = tonumber(waiting[i + 1])
    if due > micros or #ids == n then break end
    ids[#ids + 1], due = waiting[i], nil
  end
  if #ids > 0 then
    call('ZREM', w, unpack(ids))
    local records, entries = {}, {}
    for i, record in ipairs(call('HMGET', P .. 'j:' .. topic, unpack(ids))) do
      local ends, job = try(topic, priority, ids[i], record)
      if ends then
        got, first = got + 1, math.min(first, ends)
        records[2 * got - 1], records[2 * got] = ids[i], job.record
        entries[2 * got - 1], entries[2 * got] = ends, ids[i]
      end
    end
    if got > 0 then
      call('HSET', P .. 'j:' .. topic, unpack(records))
      call('ZADD', P .. 'l:' .. topic, unpack(entries))
    end
  end
  if due and due > micros then first = math.min(first, math.ceil(due / 1000)) end
  if first < math.huge then event(topic, first) end
  return got, due
end

local function finish(name)
  closeGates()
  if #taken > 1 then call('SET', P .. 'v:' .. name, table.concat(taken, '\n'), 'EX', 120) end
end
