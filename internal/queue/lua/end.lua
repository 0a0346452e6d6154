#!lua flags=allow-oom
-- Ends or extends leases of workers, and does the same with jobs that are named by their ids.
-- KEYS[1] the bucket's prefix.
-- ARGV    expired: the error of an attempt whose lease expired; then nine for each job: topic, address (see find), id,
--         reference and token of its lease (both '' for a job that is named by its id), the states that it may have
--         ('u' for a lease), verb, number, text. Verbs: A done; L back after that many ms, no attempt is counted; H
--         as L, to the head of its list; F an attempt failed, retry after the waits in the text (in ms, separated
--         by spaces; '' 1, 3, 5 … minutes); B it failed for good; E the lease ends that many ms from now
--         ('' the job's TTR). The number of A is when its lease began, in ms, its text the worker's answer. After
--         the waits of F, and in the text of B, comes a semicolon and the attempt as JSON.
-- Returns eight for each job: what it is now ('' nothing done: its lease was over, or no such job in these states; g
--         gone, d delayed, r ready, x dead, u still leased), the state before, the time of the new one in ms (when it
--         becomes ready, or its lease ends), its creation in ms, attempts made, revision, id as in the record, and for
--         one given back by its id the description, else ''.
-- Keeps   invariants 1 to 5. Tokens are compared before anything is written, so a repeated call is harmless.
local EXPIRED, JOB, HISTORY = ARGV[1], 9, 20
local out = {}

-- About the leases that the call names: by reference the tokens of those that are held; in the order of the call the
-- pages, indexes and records of their jobs; and by page whether any job there has attempts.
local held, pages, indexes, records, tried = {}, {}, {}, {}, {}
local function readLeases()
  local refs, read = {}, {}
  for i = 2, #ARGV, JOB do
    if ARGV[i + 3] ~= '' then refs[#refs + 1] = ARGV[i + 3] end
  end
  if #refs == 0 then return end
  for i, token in ipairs(ask('HMGET', P .. 'tok', refs)) do held[refs[i]] = token end
  readAll(refs, function(i, page, index, rec)
    pages[i], indexes[i], records[i], read[page] = page, index, rec, true
  end)
  tried = having('a:', keysOf(read))
end

-- The current job. All jobs share one table, created with all fields: to create and collect a table for each job would
-- take longer than the work on it.
local j = {
  topic = '', address = '', ref = 0, text = '', page = 0, index = 0, rec = '', tried = false, state = '', made = 0,
  due = 0, created = 0, flags = 0, id = '', at = 0,
}

local function setRecord(rec) j.rec, j.due, j.created, j.flags, j.id, j.at = rec, decode(rec) end

-- Makes the job of the n-th lease the current one. Returns whether the lease is held.
local function leased(n, id, ref, token)
  local rec, page = records[n], pages[n]
  if held[ref] ~= token or not rec or rec == '' then return false end
  setRecord(rec)
  if j.id ~= id then return false end
  j.ref, j.text, j.page, j.index, j.tried, j.state = tonumber(ref), ref, page, indexes[n], tried[page], 'u'
  return topicOf(page) == j.topic
end

-- Makes the job of an id the current one. Returns whether it exists.
local function named(id)
  local ref, page, index, rec = find(j.topic, j.address, id)
  if not ref then return false end
  setRecord(rec)
  j.ref, j.text, j.page, j.index, j.tried = ref, string.format('%d', ref), page, index, true
  j.state = call('ZSCORE', P .. 'lease', j.text) and 'u' or stateOf(j.topic, ref, page, j.due)
  return true
end

-- A job's history with an attempt appended, after the expired leases that reason lists.
local function appended(history, reason, made, attempt)
  local list = cjson.decode(history)
  for n, at in string.gmatch(reason, '@(%d+):(%d+)') do
    list[#list + 1] = {n = tonumber(n), started_at = tonumber(at), took_ms = 0, error = EXPIRED}
  end
  local a = cjson.decode(attempt)
  a.n = made
  if a.started_at == 0 then a.started_at = now end
  list[#list + 1] = a
  while #list > HISTORY do table.remove(list, 1) end
  return cjson.encode(list)
end

-- Makes the job ready at once, not later in finish(): another ending in this call may name it.
local function readyNow(push)
  offer(j.topic, j.ref % 4, call(push, P .. 'r:' .. j.ref % 4 .. ':' .. j.topic, j.text) == 1)
  count('nr', j.topic, 1)
  return 'r', now
end

local function delayed(ms)
  if ms <= 0 then return readyNow('RPUSH') end
  call('ZADD', P .. 'd:' .. j.topic, now + ms, j.text)
  event(j.topic, now + ms)
  count('nd', j.topic, 1)
  return 'd', now + ms
end

local function waitAfter(made, rec, flags, at, schedule)
  local extras = extrasAt(rec, flags, at)
  local n = extras and string.byte(rec, extras + 8) or 0
  if n > 0 then return (struct.unpack('>I4', rec, extras + 9 + 4 * (math.min(made, n) - 1))) end
  local wait
  for ms in string.gmatch(schedule, '%d+') do
    wait, made = tonumber(ms), made - 1
    if made == 0 then break end
  end
  return wait or (2 * made - 1) * 60000
end

-- Takes a job that stays alive out of what holds it. Its reference must not stay in a ready list: it would be leased
-- from there in whatever state it is.
local function takeOut()
  if j.state == 'r' then unlist(j.topic, j.ref) end
  detach(j.topic, j.ref, j.state)
end

local function fail(schedule, attempt, forGood)
  local made, _, reason, history = readAttempts(j.page, j.index)
  if not made then return '' end -- damaged
  made = made + 1
  local _, max = own(j.rec, j.flags, j.at)
  max = max or confOf(j.topic).max
  local dead = forGood or max > 0 and made >= max
  history = appended(history, reason, made, attempt)
  takeOut()
  total('f', j.topic, 1)
  j.made = made
  if not dead then
    writeAttempts(j.page, j.index, made, 0, '', history)
    total('r', j.topic, 1)
    return delayed(waitAfter(made, j.rec, j.flags, j.at, schedule))
  end
  writeAttempts(j.page, j.index, made, 0, forGood and 'buried' or 'attempts', history)
  call('ZADD', P .. 'x:' .. j.topic, now, j.text)
  count('nx', j.topic, 1)
  total('k', j.topic, 1)
  return 'x', now
end

local function release(ms, first)
  takeOut()
  if j.state == 'x' then
    total('v', j.topic, 1)
    restartAttempts(j.page, j.index)
    liftExpiry(j.page, j.index)
  end
  if first then return readyNow('LPUSH') end
  return delayed(ms)
end

-- Remembers a job that a worker has done, in the form of finished.go. Returns whether its locator stays.
local function rememberDone(key, field, started, answer)
  if confOf(j.topic).keep == 0 or j.state ~= 'u' or not j.at then return false end
  local made, _, attempts = 0, nil, nil
  if j.tried then made, _, _, _, attempts = readAttempts(j.page, j.index) end
  if not made then return false end
  local extra = (attempts or answer ~= '') and (attempts or '') .. '\0' .. answer or ''
  local most = 2 ^ 32 - 1
  local due = math.max(j.due, started - most) -- as in finished.go
  local late, took = math.max(0, started - due), math.max(0, now - started) * 10
  if #extra > 65535 then extra = '\0' .. answer end -- too long: a dispatcher has stored endpoints' answers as well
  made = math.min(made + 1, 65535)
  local head = struct.pack('>I4I4I2I2I2', late, math.min(took, most), 0, made, #extra)
  return remember(j.topic, head .. extra .. struct.pack('>I6', due) .. string.sub(j.rec, 7), key, field)
end

local done = {} -- references of removed jobs; their leases are removed at the end

local function finishJob(started, answer)
  local n, field = struct.unpack('>I3c8', j.address)
  local key = smallHash(n, field)
  if not rememberDone(key, field, tonumber(started) or now, answer) then call('HDEL', key, field) end
  total(j.state == 'u' and 'd' or j.state == 'x' and 'o' or 'x', j.topic, 1)
  if j.state == 'u' and confOf(j.topic).pull then
    done[#done + 1] = j.text
    count('nu', j.topic, -1)
  else
    detach(j.topic, j.ref, j.state)
  end
  if j.tried then call('HDEL', P .. 'a:' .. j.page, j.index) end
  free(j.topic, j.ref, j.page, j.index, j.flags or 0)
  if j.state == 'r' then shortenReady(j.topic, j.ref) end
  return 'g', now
end

local verbs = {
  A = finishJob,
  L = function(number) return release(tonumber(number), false) end,
  H = function() return release(0, true) end,
  F = function(_, text) return fail(string.match(text, '^([^;]*);(.*)$')) end,
  B = function(_, text) return fail('', text, true) end,
  E = function(number)
    local ms = tonumber(number) or own(j.rec, j.flags, j.at) or confOf(j.topic).ttr
    call('ZADD', P .. 'lease', 'XX', now + ms, j.text)
    if ms < 2000 then wakeTimers = true end
    return 'u', now + ms
  end,
}

-- The revision of the next change. The call takes all that it may need at once.
local revision
local function nextRevision(left)
  revision = revision and revision + 1 or revise(left)
  return revision
end

readLeases()
local size, leases = 0, 0 -- of the answer; how many leases were named
for i = 2, #ARGV, JOB do
  local id, ref, token, allowed, verb = ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]
  j.topic, j.address, j.made = ARGV[i], ARGV[i + 1], 0
  local found
  if ref == '' then
    found = named(id)
  else
    leases = leases + 1
    found = leased(leases, id, ref, token)
  end
  local became, was, at, changed = '', '', 0, false
  if found then
    was = j.state
    -- Only its removal takes a job out of an unopened page.
    if string.find(allowed, was, 1, true) and (j.at and was ~= 'f' or verb == 'A') then
      became, at = verbs[verb](ARGV[i + 7], ARGV[i + 8])
      changed = became ~= '' and verb ~= 'E'
      if changed then held[j.text] = nil end
    end
  end
  out[size + 1], out[size + 2], out[size + 3], out[size + 4] = became, was, at or 0, found and j.created or 0
  out[size + 5], out[size + 6] = j.made, changed and nextRevision((#ARGV + 1 - i) / JOB) or 0
  out[size + 7], out[size + 8] = found and j.id or '', ''
  if changed and ref == '' and (verb == 'L' or verb == 'H') then
    out[size + 8] = describe(j.topic, j.ref, j.page, j.index, read(j.page, j.index), true)
  end
  size = size + 8
end
many('ZREM', P .. 'lease', done)
many('HDEL', P .. 'tok', done)
writeFinished()
finish()
return out
