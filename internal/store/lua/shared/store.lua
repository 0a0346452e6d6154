-- Stores pushed jobs.
local LONG = 448 -- bytes of pairs and body; a longer body gets a key of its own
-- The revision of the first job of the call, how many of its jobs were visited, and what was found: for each job that
-- was not new its number from 1, 'kept', 'replaced' or 'closed', description or ''.
run.first, run.visited, run.found = 0, 0, {}

local function note(what, description)
  local n = #run.found
  run.found[n + 1], run.found[n + 2], run.found[n + 3] = run.visited, what, description or ''
end

-- Lets somebody wait for a job that is there. A running one keeps its revision, which the line of its end has, and its
-- token as its last pair.
local function await(topic, id, job)
  if get(job, 'await') or job.state ~= 'waiting' and job.state ~= 'running' then return end
  local token = get(job, 'token')
  set(job, 'token', nil)
  set(job, 'await', 1)
  set(job, 'token', token)
  if not token then job.revision = text(run.first + run.visited - 1) end
  write(topic, id, job)
end

-- Answers a push whose id exists. Returns whether the id is free now.
local function duplicate(topic, id, mode, record, awaited)
  local job = parse(record)
  if not job then
    discard(topic, id)
    return true
  end
  -- The id of a finished job is free again, unless it is remembered for a duration, or somebody waited for it.
  local free = job.state == 'done' and not tonumber(settings(topic).remember)
  if free and get(job, 'await') then free = not isAnswer(job, call('ZSCORE', P .. 'fin:' .. topic, id) or 0) end
  if free or job.state == 'done' and (mode == 'replace' or mode == 'resend') then
    remove(topic, id, job)
    return true
  end
  if mode ~= 'replace' then
    if awaited then await(topic, id, job) end
    note('kept', describe(topic, id, job, true))
    return false
  end
  note('replaced')
  remove(topic, id, job)
  count(topic, 'replaced', 1)
  return true
end

-- Stores the job whose seven arguments begin at k: id; what to do when the id exists ('keep', 'replace', 'refuse', or
-- 'resend': refuse, but not for a finished job); due time ('+ms' from now, or 'ms'); priority; pairs of the record,
-- each after a space; when it expires ('' never, '+ms' or 'ms'); body. Returns whether it is stored.
local function store(topic, k)
  local id, at, body = ARGV[k], instant(ARGV[k + 2]) + run.visited % 1000, ARGV[k + 6]
  local job, revision = {priority = ARGV[k + 3], more = ARGV[k + 4]}, run.first + run.visited
  run.visited = run.visited + 1
  local group = get(job, 'group')
  if closed(group, topic) then
    note('closed')
    return false
  end
  if ARGV[k + 5] ~= '' then job.more = job.more .. ' expires=' .. text(math.floor(instant(ARGV[k + 5]) / 1000)) end
  local long = #job.more + #body > LONG
  local record = string.format('waiting %s %d %d 0 %d', job.priority, math.floor(at / 1000), now, revision)
    .. job.more .. (long and ' long=1\n' or '\n' .. body)
  local key = P .. 'j:' .. topic
  if run.before ~= '' and ARGV[k + 1] == 'replace' then override(topic, id) end
  if call('HSETNX', key, id, record) == 0 then
    if not duplicate(topic, id, ARGV[k + 1], call('HGET', key, id), get(job, 'await')) then return false end
    call('HSET', key, id, record)
  end
  if long then call('SET', P .. 'b:' .. topic .. '/' .. id, body) end
  if group then join(topic, id, job) end
  weigh(job, 1)
  file(topic, id, job, at)
  return true
end

-- Stores n jobs of a topic, whose arguments begin at k.
local function storeAll(topic, k, n)
  local stored = 0
  for i = k, k + 7 * n - 7, 7 do
    if store(topic, i) then stored = stored + 1 end
  end
  if stored == 0 then return end
  count(topic, 'pushed', stored)
  call('SADD', P .. 'topics', topic)
end
