#!lua
-- Applies lines of a journal to the bucket: of all the lines about a job the one with the highest revision decides, in
-- whatever order and from however many hosts they come.
-- KEYS[1] the bucket's prefix.
-- ARGV    'compare', 'late' or 'hand'; name of the comparison ('' by hand); '1' for a dry run; then eleven for each
--         line: kind, revision, for stored jobs the last revision at which they are known to have been alive (0: none),
--         topic, address (see find), id, creation in ms, record, the body again if it has a key of its own, else '',
--         when the job died in ms, or '', attempts as in a:PAGE, or ''. Kinds: 'stored' (the whole job; with the time
--         of its death if it died later), 'deleted', 'delivered', 'died', 'cleared' (the jobs of a topic).
-- Returns for each the effect: 'stored', 'replaced', 'removed', 'buried', or '' for none.
-- Keeps   invariants 1 to 5. No flag: a full Redis refuses the whole script. The same lines again change nothing.
--
-- rv has for each job, by its address, the highest replayed revisions: c of its content, l at which it was alive, s of
-- its state k ('deleted', 'delivered', 'died'); for a job that died before its content came also at and a; and for each
-- topic, under 'T' and its name, the revision at which it was cleared. Lines that are replayed late, or by hand, may be
-- older than later changes: they restore missing jobs, remove ended ones, and leave alone jobs that somebody may have
-- changed.
local NONE = -9e15
local mode, name, dry = ARGV[1], ARGV[2], ARGV[3] == '1'
local comparing = mode == 'compare'
local after = 0 -- revision of the data when the server appeared
local id = serverID()
if comparing then
  local cmp = call('HMGET', P .. 'cmp', 'name', 'run', 'after')
  after = tonumber(cmp[3] or 0)
  if cmp[1] ~= name or cmp[2] ~= id then return redis.error_reply('OTHERSERVER another comparison has begun') end
elseif mode == 'late' and call('GET', P .. 'run') ~= id then
  return redis.error_reply(NOTCOMPARED)
end

local rv = P .. 'rv'
local line = {} -- the current one
local known     -- the entry of its job in rv

local function know()
  local packed = mode ~= 'hand' and call('HGET', rv, line.address)
  known = packed and cmsgpack.unpack(packed) or {c = NONE, l = NONE, s = NONE, k = ''}
end

local function keep()
  if mode ~= 'hand' and not dry then call('HSET', rv, line.address, cmsgpack.pack(known)) end
end

-- Stores a record of the line's job anew; returns its reference.
local function place(record, long, time)
  local due, _, flags = decode(record)
  local ref = store(line.topic, flags % 4, time or due, record, due)
  local n, field = struct.unpack('>I3c8', line.address)
  local text = string.format('%d', ref)
  call('HSET', smallHash(n, field), field, text)
  if long ~= '' then call('SET', P .. 'b:' .. text, long) end
  return ref
end

local function kill(ref, state, at, attempts)
  detach(line.topic, ref, state)
  local page, index = placeOf(ref)
  if attempts ~= '' then call('HSET', P .. 'a:' .. page, index, attempts) end
  call('ZADD', P .. 'x:' .. line.topic, at, ref)
  count('nx', line.topic, 1)
  total('k', line.topic, 1)
end

-- Makes a job dead. One in a ready list or an unopened page gets a new place, since these still refer to the old one.
local function bury(ref, state, page, index, at, attempts)
  if state == 'r' or state == 'f' then
    local rec = read(page, index)
    local _, _, flags = decode(rec)
    local long = hasBodyKey(flags) and call('GET', P .. 'b:' .. string.format('%d', ref)) or ''
    remove(line.topic, ref, page, index, rec)
    ref, state = place(rec, long, now + LEAD), 'd'
  end
  kill(ref, state, at, attempts)
end

-- Stores the line's job, as dead when at says when it died.
local function put(at, attempts)
  local ref = place(line.record, line.long, at and now + LEAD)
  total('p', line.topic, 1)
  if at then return kill(ref, 'd', at, attempts) end
  local page, index = placeOf(ref)
  if attempts ~= '' then call('HSET', P .. 'a:' .. page, index, attempts) end
end

local function same(ref, rec)
  return rec == line.record and (line.long == '' or call('GET', P .. 'b:' .. string.format('%d', ref)) == line.long)
end

-- Whether the content of an existing job is to be replaced by the line's.
local function outdated(ref, rec)
  local _, created, flags = decode(rec)
  if not created then return false end
  if comparing then return true end
  if created ~= line.created then return created < line.created end
  return mode == 'hand'
end

-- Stores the line's record in place of the existing one; alive when that has died before.
local function renew(ref, page, index, rec, alive, at, attempts)
  if dry then return 'replaced' end
  local _, created = decode(rec)
  if alive then restartAttempts(page, index) end
  if not at and created == line.created then attempts = call('HGET', P .. 'a:' .. page, index) or '' end
  remove(line.topic, ref, page, index, rec)
  total('y', line.topic, 1)
  put(at, attempts)
  return 'replaced'
end

-- Revives a job with known content that was made dead before a line said that it was alive later.
local function revive()
  if not comparing or known.l <= after or known.k == 'died' and known.s > known.l then return '' end
  local ref, page, index, rec = find(line.topic, line.address, line.id)
  local due, created, flags = decode(rec or '')
  if not created or created ~= line.created then return '' end
  if stateOf(line.topic, ref, page, due) ~= 'x' then return '' end
  line.record, line.long = rec, hasBodyKey(flags) and call('GET', P .. 'b:' .. string.format('%d', ref)) or ''
  return renew(ref, page, index, rec, true, nil, '')
end

local kinds = {}

local function take(stays)
  local ref, page, index, rec = find(line.topic, line.address, line.id)
  if not ref then return '' end
  local due, created, flags = decode(rec)
  if not created or stays(created, stateOf(line.topic, ref, page, due), ref) then return '' end
  if dry then return 'removed' end
  local state = stateOf(line.topic, ref, page, due)
  total(line.kind == 'delivered' and 'd' or state == 'x' and 'o' or 'x', line.topic, 1)
  remove(line.topic, ref, page, index, rec)
  return 'removed'
end

function kinds.stored()
  if line.rev <= tonumber(call('HGET', rv, 'T' .. line.topic) or NONE) then return '' end
  if line.since ~= 0 then known.l = math.max(known.l, line.since) end
  if line.rev <= known.c then
    keep()
    return line.since ~= 0 and revive() or ''
  end
  local ended = known.k == 'deleted' and known.s > line.rev or known.k == 'delivered' and known.s >= line.rev
  local at, attempts = line.at, line.attempts
  if comparing then at, attempts = nil, '' end -- the death has a line of its own
  if known.k == 'died' and known.s > known.l then at, attempts = known.at, known.a end
  known.c = line.rev
  keep()
  if ended then
    return take(function(created) return not comparing or created == line.created end) -- the job that it replaced
  end
  local ref, page, index, rec = find(line.topic, line.address, line.id)
  if page == 'collision' then return '' end
  if not ref then
    if not dry then put(at, attempts) end
    return 'stored'
  end
  local due = decode(rec)
  local state = stateOf(line.topic, ref, page, due)
  local alive = not at and state == 'x' and known.l > after -- made due, or stored again, since it died
  if same(ref, rec) and not (comparing and alive) then
    if not at or state == 'x' or not comparing then return '' end
    if not dry then bury(ref, state, page, index, at, attempts) end
    return 'buried'
  end
  if not outdated(ref, rec) then return '' end
  return renew(ref, page, index, rec, alive, at, attempts)
end

function kinds.deleted()
  if line.rev <= known.s then return '' end
  known.s, known.k = line.rev, 'deleted'
  keep()
  if known.c > line.rev then return '' end
  return take(function(created) return line.created > 0 and created > line.created end)
end

-- The line of a delivery has the revision of its reservation, or of the end of a worker's lease: the job as it was then
-- has ended. When the data has that revision, it holds the end as well, or the reservation.
function kinds.delivered()
  if line.rev <= known.s then return '' end
  known.s, known.k = line.rev, 'delivered'
  keep()
  if known.c > line.rev then return '' end
  return take(function(created, state, ref)
    if not comparing then return created ~= line.created or state == 'u' end
    return line.rev <= after and reservationOf(ref) ~= line.rev
  end)
end

function kinds.died()
  if line.rev <= known.s then return '' end
  known.s, known.k, known.at, known.a = line.rev, 'died', line.at, line.attempts
  keep()
  local ref, page, index, rec = find(line.topic, line.address, line.id)
  if not ref or known.l > line.rev or not comparing then return '' end
  local due, created, flags = decode(rec)
  local state = stateOf(line.topic, ref, page, due)
  if created ~= line.created or state == 'x' then return '' end
  if not dry then bury(ref, state, page, index, line.at, line.attempts) end
  return 'buried'
end

-- Existing jobs are deleted one by one, by lines of the same revision.
function kinds.cleared()
  local field = 'T' .. line.topic
  if not dry and line.rev > tonumber(call('HGET', rv, field) or NONE) then
    call('HSET', rv, field, string.format('%d', line.rev))
  end
  return ''
end

local out = {}
for i = 4, #ARGV, 11 do
  line = {
    kind = ARGV[i], rev = tonumber(ARGV[i + 1]), since = tonumber(ARGV[i + 2]), topic = ARGV[i + 3],
    address = ARGV[i + 4], id = ARGV[i + 5], created = tonumber(ARGV[i + 6]), record = ARGV[i + 7],
    long = ARGV[i + 8], at = tonumber(ARGV[i + 9]), attempts = ARGV[i + 10],
  }
  if line.kind ~= 'cleared' then know() end
  out[#out + 1] = kinds[line.kind]()
end
finish()
return out
