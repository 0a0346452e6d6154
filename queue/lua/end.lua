#!lua flags=allow-oom
-- Ends leases of workers, or extends them; and does the same with jobs that are named by their ids.
-- KEYS[1] the bucket's prefix.
-- ARGV    expired: the error of an attempt whose lease expired; then nine a job: topic, address (see find), id,
--         reference and token of its lease (both '' for a job that is named by its id), the states in which it may be
--         ('u' of a lease), verb, number, text. Verbs: A it is done; L back, after as many ms, no attempt is counted; H
--         the same to the head of its list; F an attempt failed, to be made again after the waits of the text (in ms,
--         with spaces between; '' 1, 3, 5 … minutes); B it failed for good; E extend the lease by as many ms from now
--         ('' the job's TTR). The number of A is when its lease began, in ms, its text what the worker answered. Behind
--         the waits of F, and in the text of B, is the attempt as JSON, after a semicolon.
-- Returns eight a job: what became of it ('' nothing: its lease was over, or there is no such job in these states; g
--         gone, d delayed, r ready, x dead, u still leased), the state in which it was, the time of that in ms (when it
--         becomes ready, or its lease ends), its creation in ms, attempts made, revision, id as in the record, and of
--         one that was given back by its id the description, else ''.
-- Keeps   invariants 1 to 5. Tokens are compared before anything is written, so a repeated call is harmless.
local EXPIRED, JOB, HISTORY = ARGV[1], 9, 20
local out = {}

local refs, tokens = {}, {} -- of the leases that the call names; tokens by reference, as long as they are held
for i = 2, #ARGV, JOB do
  if ARGV[i + 3] ~= '' then refs[#refs + 1] = ARGV[i + 3] end
end
for i, token in ipairs(#refs > 0 and ask('HMGET', P .. 'tok', refs) or {}) do tokens[refs[i]] = token end

-- The job that a lease names, if it is held.
local function leased(topic, id, ref, token)
  if tokens[ref] ~= token then return nil end
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec or topicOf(page) ~= topic then return nil end
  local _, _, _, have = decode(rec)
  if have ~= id and not (have and isNonce(have)) then return nil end
  return tonumber(ref), page, index, rec
end

-- A job's history with an attempt, and with the leases that expired before it, which reason has.
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

local function delayed(topic, ref, ms)
  if ms <= 0 then
    ready(topic, ref % 4, string.format('%d', ref))
    return 'r', now
  end
  call('ZADD', P .. 'd:' .. topic, now + ms, string.format('%d', ref))
  event(topic, now + ms)
  count('nd', topic, 1)
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
-- by that, whatever has become of it.
local function takeOut(j)
  if j.state == 'r' then call('LREM', P .. 'r:' .. j.ref % 4 .. ':' .. j.topic, 1, string.format('%d', j.ref)) end
  detach(j.topic, j.ref, j.state)
end

local function fail(j, schedule, attempt, forGood)
  local made, _, reason, history = readAttempts(j.page, j.index)
  if not made then return '' end -- of a newer format
  made = made + 1
  local _, max = own(j.rec, j.flags, j.at)
  max = max or confOf(j.topic).max
  local dead = forGood or max > 0 and made >= max
  history = appended(history, reason, made, attempt)
  takeOut(j)
  total('f', j.topic, 1)
  j.made = made
  if not dead then
    writeAttempts(j.page, j.index, made, 0, '', history)
    total('r', j.topic, 1)
    return delayed(j.topic, j.ref, waitAfter(made, j.rec, j.flags, j.at, schedule))
  end
  writeAttempts(j.page, j.index, made, 0, forGood and 'buried' or 'attempts', history)
  call('ZADD', P .. 'x:' .. j.topic, now, string.format('%d', j.ref))
  count('nx', j.topic, 1)
  total('k', j.topic, 1)
  return 'x', now
end

local function release(j, ms, first)
  if j.state == 'f' then return '' end
  takeOut(j)
  if j.state == 'x' then
    total('v', j.topic, 1)
    restartAttempts(j.page, j.index)
    liftExpiry(j.page, j.index)
  end
  if not first then return delayed(j.topic, j.ref, ms) end
  offer(j.topic, j.ref % 4, call('LPUSH', P .. 'r:' .. j.ref % 4 .. ':' .. j.topic, string.format('%d', j.ref)) == 1)
  count('nr', j.topic, 1)
  return 'r', now
end

-- Remembers a job that a worker has done, in the form of finished.go.
local function rememberDone(j, started, answer)
  if confOf(j.topic).keep == 0 or j.state ~= 'u' or not j.at or isNonce(j.id) then return end
  local made, _, _, _, attempts = readAttempts(j.page, j.index)
  if not made then return end
  local extra = (attempts or answer ~= '') and (attempts or '') .. '\0' .. answer or ''
  local late, took = math.max(0, started - j.due), math.max(0, now - started) * 10
  local most, n, field = 2 ^ 32 - 1, struct.unpack('>I3c8', j.address)
  local head = struct.pack('>I4I4I2I2I2', math.min(late, most), math.min(took, most), 0, made + 1, #extra)
  remember(j.topic, head .. extra .. j.rec, smallHash(n, field), field)
end

local done = {} -- references of jobs that are gone, whose leases end at last

local verbs = {
  A = function(j, started, answer)
    rememberDone(j, tonumber(started) or now, answer)
    total(j.state == 'u' and 'd' or j.state == 'x' and 'o' or 'x', j.topic, 1)
    if j.state == 'u' and confOf(j.topic).pull then
      done[#done + 1] = string.format('%d', j.ref)
      count('nu', j.topic, -1)
    else
      detach(j.topic, j.ref, j.state)
    end
    erase(j.topic, j.ref, j.page, j.index, j.flags or 0, struct.unpack('>I3c8', j.address))
    return 'g', now
  end,
  L = function(j, number) return release(j, tonumber(number), false) end,
  H = function(j) return release(j, 0, true) end,
  F = function(j, _, text) return fail(j, string.match(text, '^([^;]*);(.*)$')) end,
  B = function(j, _, text) return fail(j, '', text, true) end,
  E = function(j, number)
    local ms = tonumber(number) or own(j.rec, j.flags, j.at) or confOf(j.topic).ttr
    call('ZADD', P .. 'lease', 'XX', now + ms, string.format('%d', j.ref))
    if ms < 2000 then wakeTimers = true end
    return 'u', now + ms
  end,
}

-- The revision of the next change. All that the call may need are taken at once.
local revision
local function nextRevision(left)
  revision = revision and revision + 1 or revise(left)
  return revision
end

for i = 2, #ARGV, JOB do
  local j = {topic = ARGV[i], address = ARGV[i + 1]}
  local id, ref, token, allowed, verb = ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]
  if ref ~= '' then
    j.ref, j.page, j.index, j.rec = leased(j.topic, id, ref, token)
  else
    j.ref, j.page, j.index, j.rec = find(j.topic, j.address, id)
  end
  local became, was, at, created, have = '', '', 0, 0, ''
  if j.ref then
    j.due, created, j.flags, have, j.at = decode(j.rec)
    j.id = have
    local held = ref ~= '' or call('ZSCORE', P .. 'lease', string.format('%d', j.ref))
    j.state = held and 'u' or stateOf(j.topic, j.ref, j.page, j.due)
    was = j.state
    if string.find(allowed, j.state, 1, true) and (j.at or verb == 'A') then
      became, at = verbs[verb](j, ARGV[i + 7], ARGV[i + 8])
      if became ~= '' and verb ~= 'E' then tokens[string.format('%d', j.ref)] = nil end
    end
  end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = became, was, at or 0, created or 0
  local changed = became ~= '' and verb ~= 'E'
  out[n + 5], out[n + 6], out[n + 7] = j.made or 0, changed and nextRevision((#ARGV + 1 - i) / JOB) or 0, have or ''
  out[n + 8] = became ~= '' and verb == 'L' and ref == ''
    and describe(j.topic, j.ref, j.page, j.index, read(j.page, j.index), true) or ''
end
many('ZREM', P .. 'lease', done)
many('HDEL', P .. 'tok', done)
writeFinished()
finish()
return out
