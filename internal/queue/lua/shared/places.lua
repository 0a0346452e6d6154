-- Stores, holds and removes jobs.

-- Records that a topic has a job that expires, so that advance.lua sweeps the topic from now on.
local expiring = {}
local function noteExpiry(topic, expires)
  if expires == 0 or expiring[topic] then return end
  expiring[topic] = true
  call('ZADD', P .. 'exp', 'NX', math.max(now + 1000, math.min(expires, now + SWEEP)), topic)
end

-- Appends a record to the page for its time, and adds the job to the key that holds it until then. Returns the
-- reference; the caller sets the locator. A job that waits for a retry (at is not its due time) is near, however long
-- it waits, because pages are opened by due times. All jobs of a thin topic are near, too.
local function store(topic, priority, at, rec, due)
  local slot = at - at % SLOT
  local near = slot - LEAD <= now or at ~= due or isThin(topic, 1)
  local field = near and topic or topic .. '/' .. slot
  local page = call('HGET', P .. 'cur', field)
  local length
  if page then
    length = call('RPUSH', P .. 'p:' .. page, rec)
  else
    page = call('INCR', P .. 'seq')
    length = call('RPUSH', P .. 'p:' .. page, topic, rec)
    call('HSET', P .. 'cur', field, page, '', TABLE)
    if not near then call('ZADD', P .. 'pg:' .. topic, slot, page) end
  end
  if length >= PAGE then call('HDEL', P .. 'cur', field) end
  local _, _, flags, _, rest = decode(rec)
  if rest then noteExpiry(topic, expiryOf(rec, flags, rest)) end
  local ref = (page * PAGE + length - 1) * 4 + priority
  if at <= now then
    ready(topic, priority, ref)
    return ref
  end
  count('nd', topic, 1)
  if near then
    call('ZADD', P .. 'd:' .. topic, at, ref)
    event(topic, at)
  else
    event(topic, slot - LEAD)
  end
  return ref
end

-- Counts n more records of a page as gone. finish() removes pages without any record left.
local function gone(topic, page, n) freed[page], topics[page] = (freed[page] or 0) + n, topic end

-- Empties the place of a job that no key holds any more. The caller removes the locator and the attempts.
local function free(topic, ref, page, index, flags)
  redis.pcall('LSET', pageKey(page), index, '')
  if hasBodyKey(flags) then call('UNLINK', P .. 'b:' .. string.format('%d', ref)) end
  gone(topic, page, 1)
end

-- The state of a live job and its time: d and when it becomes ready, u and the lease's end, x and when it died, or r.
local function stateOf(topic, ref, page, due)
  local at = call('ZSCORE', P .. 'd:' .. topic, ref)
  if at then return 'd', tonumber(at) end
  at = call('ZSCORE', P .. 'lease', ref)
  if at then return 'u', tonumber(at) end
  at = call('ZSCORE', P .. 'x:' .. topic, ref)
  if at then return 'x', tonumber(at) end
  if call('ZSCORE', P .. 'pg:' .. topic, page) then return 'f', due end
  return 'r', 0
end

-- The revision of the reservation under which a dispatcher has a job, 0 when none has.
local function reservationOf(ref)
  return tonumber(string.match(call('HGET', P .. 'tok', ref) or '', ':(%d+)$') or 0)
end

-- Takes a live job out of the key that holds it (invariant 1). Its record, locator and attempts stay.
local function detach(topic, ref, state)
  if state == 'd' then
    call('ZREM', P .. 'd:' .. topic, ref)
    count('nd', topic, -1)
  elseif state == 'f' then
    count('nd', topic, -1)
  elseif state == 'u' then
    call('ZREM', P .. 'lease', ref)
    call('HDEL', P .. 'tok', ref)
    count('nu', topic, -1)
    if not confOf(topic).pull then unpark(topic) end
  elseif state == 'x' then
    call('ZREM', P .. 'x:' .. topic, ref)
    count('nx', topic, -1)
  else
    count('nr', topic, -1) -- the reference stays in its ready list and finds no job
  end
end

-- Removes references to gone jobs from the head of a ready list, n at most, and returns how many. One reference stays:
-- the topic of an empty list would be in the ring.
local function trim(key, n)
  local refs, gone = call('LRANGE', key, 0, n), 0
  while gone < #refs - 1 and not read(placeOf(refs[gone + 1])) do gone = gone + 1 end
  if gone > 0 then call('LTRIM', key, gone, -1) end
  return gone
end

-- Keeps a ready list short although nobody takes its jobs, while they are replaced or changed again and again: a removed
-- job is usually the first or the last one.
local function shortenReady(topic, ref)
  local key = P .. 'r:' .. ref % 4 .. ':' .. topic
  trim(key, 10)
  if call('LINDEX', key, -1) == string.format('%d', ref) and call('LLEN', key) > 1 then call('RPOP', key) end
end

-- Removes a live job.
local function remove(topic, ref, page, index, rec)
  local due, _, flags, id = decode(rec)
  local state = stateOf(topic, ref, page, due)
  detach(topic, ref, state)
  local n, field = locator(topic, id or '')
  call('HDEL', smallHash(n, field), field)
  call('HDEL', P .. 'a:' .. page, index)
  free(topic, ref, page, index, flags or 0)
  if state == 'r' then shortenReady(topic, ref) end
end

-- A record of a job that does not expire.
local function unlimited(rec)
  local _, _, flags, _, at = decode(rec)
  local extras = extrasAt(rec, flags, at)
  if not extras then return rec end
  return string.sub(rec, 1, extras + 1) .. struct.pack('>I6', 0) .. string.sub(rec, extras + 8)
end

-- Removes the expiry of a job, which has passed or may pass soon.
local function liftExpiry(page, index) call('LSET', P .. 'p:' .. page, index, unlimited(read(page, index))) end

-- Makes a job ready now under its present reference. It must not be in an unopened page.
local function makeDue(topic, ref, page, index, rec)
  call('LSET', P .. 'p:' .. page, index, struct.pack('>I6', now) .. string.sub(rec, 7))
  ready(topic, ref % 4, ref)
end
