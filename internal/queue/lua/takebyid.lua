#!lua flags=allow-oom
-- Takes a job that is named by its id for a worker: a ready, delayed or dead one, regardless of its topic's limits.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, address (see find), id, token of the lease.
-- Returns {now} when there is no such job in these states; else {now, revision, then six for the job, as reserve.lua}.
-- Keeps   invariants 1 to 5: the job is never ready in between, so nobody else gets it early. The same token again
--         returns the job again, so a repeated call is harmless.
local topic, address, id, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ref, page, index, rec = find(topic, address, id)
if not ref then return {now} end
local due, _, flags, _, rest = decode(rec)
local state, expiry = stateOf(topic, ref, page, due)
local text = string.format('%d', ref)

-- Moves a job from an unopened page to another place, since it would become ready when the page is opened.
local function moveOut()
  local long = hasBodyKey(flags) and call('GET', P .. 'b:' .. text)
  local attempts = call('HGET', P .. 'a:' .. page, index)
  remove(topic, ref, page, index, rec)
  ref = store(topic, ref % 4, now + LEAD, rec, due)
  page, index = placeOf(ref)
  text, state = string.format('%d', ref), 'd'
  local n, field = struct.unpack('>I3c8', address)
  call('HSET', smallHash(n, field), field, text)
  if long then call('SET', P .. 'b:' .. text, long) end
  if attempts then call('HSET', P .. 'a:' .. page, index, attempts) end
end

local function takeOut()
  if state == 'f' then moveOut() end
  if state == 'r' then unlist(topic, ref) end
  detach(topic, ref, state)
  if state == 'x' then
    total('v', topic, 1)
    restartAttempts(page, index)
    liftExpiry(page, index)
  end
end

local function lease()
  local ttr = own(rec, flags, rest) or confOf(topic).ttr
  expiry = now + ttr
  call('ZADD', P .. 'lease', expiry, text)
  call('HSET', P .. 'tok', text, token, '', TABLE)
  count('nu', topic, 1)
  wakeTimers = wakeTimers or ttr < 2000 -- otherwise it could end late, since timers poll more rarely
end

if state == 'u' then
  if call('HGET', P .. 'tok', text) ~= token then return {now} end
else
  local expires = expiryOf(rec, flags, rest)
  if state ~= 'x' and expires > 0 and expires <= now then return {now} end
  takeOut()
  lease()
  finish()
  rec = read(page, index)
end
local body = hasBodyKey(flags) and call('GET', P .. 'b:' .. text) or ''
return {now, revise(1), topic, expiry, text, rec, body, call('HGET', P .. 'a:' .. page, index) or ''}
