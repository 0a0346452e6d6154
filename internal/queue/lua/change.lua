#!lua
-- Changes a delayed or ready job, or makes a job due now.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, address (see find), id, allowed etags (see matches), action ('change' or 'run'), then for a change:
--         when ('' unchanged, '+ms' from now, 'ms'), priority ('' unchanged), body given ('1' or ''), body, body has a
--         key of its own ('1' or '').
-- Returns {now, revision (0 when nothing was changed), result}: 'none' (no such job), 'running', 'dead', 'other' (other
--         etag), or the description of the job as it is now.
--         A run of a ready or running job has a revision, too: the same call may have made it due before, and
--         its answer was lost. For a running job it is the reservation's.
-- Keeps   invariants 1 to 5. A changed job gets a new place, and a record with its id; its attempts and creation time
--         stay.
local topic, id, what = ARGV[1], ARGV[3], ARGV[5]
local n, field = struct.unpack('>I3c8', ARGV[2])
local ref, page, index, rec = find(topic, ARGV[2], id)
if not ref then return {now, 0, 'none'} end
local due, created, flags, _, at = decode(rec)
if not matches(ARGV[4], topic, ref, page, index, rec) then return {now, 0, 'other'} end
local state, time = stateOf(topic, ref, page, due)

if what == 'run' then
  if state == 'd' or state == 'x' then
    detach(topic, ref, state)
    if state == 'x' then
      total('v', topic, 1)
      restartAttempts(page, index)
    end
    makeDue(topic, ref, page, index, rec)
    if state == 'x' then liftExpiry(page, index) end
  end
  if state ~= 'f' then
    finish()
    local called = reservationOf(ref) -- otherwise the journal's line of this run would outrank the job's delivery
    return {now, called > 0 and called or revise(1), describe(topic, ref, page, index, read(page, index), true)}
  end
end
if state == 'u' then return {now, 0, 'running'} end
if state == 'x' then return {now, 0, 'dead'} end

local when, priority, given, body, ownKey = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
if what == 'run' then when, priority, given = '+0', '', '' end
if state == 'r' then time = math.min(due, now) end -- it may have been made ready early
if when ~= '' then
  due = tonumber(when)
  if string.sub(when, 1, 1) == '+' then due = now + due end
  time = due
end
priority = priority == '' and ref % 4 or tonumber(priority)
local long = hasBodyKey(flags) and call('GET', P .. 'b:' .. ref) or ''
local extras = 0
if flags % 16 >= 8 then extras = 6 end
if flags % 32 >= 16 then extras = extras + 1 + string.byte(rec, at + extras) end
if flags % 64 >= 32 then extras = extras + 2 + struct.unpack('>I2', rec, at + extras) end
local head = string.char(#id) .. id .. string.sub(rec, at, at + extras - 1)
local rest = string.sub(rec, at + extras)
local keyed = hasBodyKey(flags)
if given == '1' then
  keyed = ownKey == '1'
  if keyed then long, rest = body, '' else long, rest = '', body end
end
flags = flags - flags % 8 + priority + (keyed and 4 or 0)
local attempts = call('HGET', P .. 'a:' .. page, index)
remove(topic, ref, page, index, rec)
local new = store(topic, priority, time, struct.pack('>I6I6B', due, created, flags) .. head .. rest, due)
call('HSET', smallHash(n, field), field, new)
if long ~= '' then call('SET', P .. 'b:' .. new, long) end
page, index = placeOf(new)
if attempts then call('HSET', P .. 'a:' .. page, index, attempts) end
finish()
return {now, revise(1), describe(topic, new, page, index, read(page, index), true)}
