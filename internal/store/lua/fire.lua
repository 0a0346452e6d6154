#!lua
-- With: record, topic, totals, order, wait, group, occurrence, remove, describe, store.
-- Pushes the occurrences of schedules that have come, if nobody has yet.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs and schedules together; then for each schedule: name, topic, revision of its definition, cursor
--         as the caller knows it ('' to read it only), new cursor, overlap, how many are left out because they are
--         late, and because of the limit, how many jobs, and seven for each, see store.lua.
-- Returns {now in µs, then for each schedule its state: {what, cursor, revision of the definition, revision of the
--         first job (the cursor's is behind those of all jobs), then what was found, see store.lua}}. What is 'fired',
--         'skipped' (the one before has not ended), 'moved' (the cursor is another one), 'other' (the definition is),
--         or 'none' (there is no such schedule here).
-- Keeps   a job is stored with the cursor behind it, so each occurrence is pushed once, whoever tries.
local function has(job) return job and (job.state == 'waiting' or job.state == 'running') end

-- Whether the occurrence before the next ones keeps them out.
local function keepsOut(topic, last, overlap)
  local before = last[#last]
  local job = overlap ~= 'allow' and before and find(topic, before.id)
  if not has(job) then return false end
  if overlap == 'skip' then return true end
  if job.state == 'waiting' then
    before.state = 'replaced'
    set(job, 'sched', nil) -- noted here
    delete(topic, before.id, job)
  else -- it ends, and is not retried, see settle.lua
    cancelRunning(topic, before.id, job, 'schedule')
  end
  return false
end

local function leaveOut(key, reason, n)
  if n > 0 then call('HINCRBY', key, reason, n) end
end

local function fire(i, n)
  local name, topic, rev, cursor, at, overlap = unpack(ARGV, i, i + 5)
  local key = P .. 's:' .. name
  local have = call('HMGET', key, 'at', 'rev', 'topic')
  if have[3] ~= topic then return {'none', 0, 0, 0} end
  local state = {'moved', tonumber(have[1]), tonumber(have[2]), 0}
  if have[2] ~= rev then state[1] = 'other' end
  if have[2] ~= rev or have[1] ~= cursor then return state end
  local last = lastOf(key)
  state[1], state[2] = 'fired', tonumber(at)
  leaveOut(key, 'late', tonumber(ARGV[i + 6]))
  leaveOut(key, 'limit', tonumber(ARGV[i + 7]))
  if n > 0 and keepsOut(topic, last, overlap) then
    state[1], n = 'skipped', 0
    leaveOut(key, 'overlap', tonumber(ARGV[i + 8]))
  end
  state[4], run.found = run.first + run.visited, {}
  storeAll(topic, i + 9, n)
  for k = i + 9, i + 2 + 7 * n, 7 do
    local nominal = string.match(ARGV[k + 4], ' for=(%d+)')
    last[#last + 1] = {id = ARGV[k], ['for'] = tonumber(nominal), state = 'delayed'}
  end
  setLast(key, last)
  call('HSET', key, 'at', at, 'revision', run.first + run.visited)
  run.visited = run.visited + 1
  for _, found in ipairs(run.found) do state[#state + 1] = found end
  return state
end

local out = {micros}
run.first = call('INCRBY', P .. 'rev', ARGV[1]) - ARGV[1] + 1
local i = 2
while i < #ARGV do
  local n = tonumber(ARGV[i + 8])
  out[#out + 1] = fire(i, n)
  i = i + 9 + 7 * n
end
return out
