#!lua
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, describe, store.
-- Pushes the occurrences of schedules that have come, if nobody has yet.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs and schedules together; then for each schedule: name, topic, revision of its definition, cursor
--         as the caller knows it, new cursor, overlap, how many are left out because they are late, because of the
--         limit and because of a pause, how many jobs, and seven for each, see store.lua. Without a cursor ('') jobs
--         are pushed beside it, and without jobs nothing is changed.
-- Returns {now in µs, then for each schedule its state: {what, cursor, revision of the definition, revision of the
--         first job (the cursor's is behind those of all jobs), id and creation in ms of the job that was deleted or
--         '', what journals need (occurrence.lua, six), then what was found, see store.lua}}. What is 'fired',
--         'skipped' (the one before has not ended), 'moved' (the cursor is another one), 'early' (the new one has not
--         come), 'other' (the definition is another one), or 'none' (there is no such schedule here).
-- Keeps   a job is stored with the cursor behind it, so each occurrence is pushed once, whoever tries.
local function lives(job) return job and (job.state == 'waiting' or job.state == 'running') end

-- Whether the occurrence before the next ones keeps them out.
local function keepsOut(topic, last, overlap, state)
  local before = last[#last]
  local job = overlap ~= 'allow' and before and find(topic, before.id)
  if not lives(job) then return false end
  if overlap == 'skip' then return true end
  if job.state == 'waiting' then
    before.state = 'replaced'
    set(job, 'sched', nil) -- noted here
    delete(topic, before.id, job)
    state[5], state[6] = before.id, job.created
  else -- it ends, and is not retried, see settle.lua
    cancelRunning(topic, before.id, job, 'schedule')
  end
  return false
end

-- Why a schedule's cursor must stay as it is.
local function refusal(have, rev, cursor, at)
  if have[2] ~= rev then return 'other' end
  if have[1] ~= cursor then return 'moved' end
  if tonumber(at) > now then return 'early' end
end

local function fire(i, n)
  local name, topic, rev, cursor, at, overlap = unpack(ARGV, i, i + 5)
  local key, beside = P .. 's:' .. name, cursor == '' and n > 0
  local have = call('HMGET', key, 'at', 'rev', 'topic')
  if have[3] ~= topic or not have[2] then return {'none', 0, 0, 0} end
  local state = {'fired', tonumber(have[1]), tonumber(have[2]), 0, '', 0}
  local refused = refusal(have, rev, beside and have[1] or cursor, beside and '0' or at)
  if refused then
    state[1] = refused
    return state
  end
  local last = lastOf(key)
  run.found = {}
  if n > 0 and keepsOut(topic, last, overlap, state) then
    state[1], n = 'skipped', 0
    if not beside then leaveOut(key, 'overlap', tonumber(ARGV[i + 9])) end
  end
  state[4] = run.first + run.visited
  storeAll(topic, i + 10, n)
  if not beside then
    for k = i + 10, i + 3 + 7 * n, 7 do
      local nominal = string.match(ARGV[k + 4], ' for=(%d+)')
      last[#last + 1] = {id = ARGV[k], ['for'] = tonumber(nominal), state = 'delayed'}
    end
    for k, reason in ipairs({'late', 'limit', 'paused'}) do leaveOut(key, reason, tonumber(ARGV[i + 5 + k])) end
    state[2] = tonumber(at)
    call('HSET', key, 'at', at)
  end
  setLast(key, last)
  call('HSET', key, 'revision', run.first + run.visited)
  run.visited = run.visited + 1
  for _, v in ipairs(noted(key, last)) do state[#state + 1] = v or '0' end
  for _, found in ipairs(run.found) do state[#state + 1] = found end
  return state
end

local out = {micros}
run.first = call('INCRBY', P .. 'rev', ARGV[1]) - ARGV[1] + 1
local i = 2
while i < #ARGV do
  local n = tonumber(ARGV[i + 9])
  out[#out + 1] = fire(i, n)
  i = i + 10 + 7 * n
end
return out
