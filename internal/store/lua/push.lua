#!lua
-- With: record, topic, totals, order, wait, group, remove, describe.
-- Stores jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs; then runs of jobs of one topic: the topic, how many, then seven for each job: id; what to do
--         when the id exists ('keep', 'replace', 'refuse', or 'resend': refuse, but not for a finished job); due time
--         ('+ms' from now, or 'ms'); priority; pairs of the record, each after a space; when it expires ('' never,
--         '+ms' or 'ms'); body.
-- Returns {now in µs, revision of the first job, then for each job whose id existed, or whose group is closed: its
--         number from 1, 'kept', 'replaced' or 'closed', description or ''}.
-- Keeps   a job's record is stored with its entry in w or f. No flag: a full Redis refuses the script before it writes.
local LONG = 448 -- bytes of pairs and body; a longer body gets a key of its own
local out, number = {micros, 0}, 0

-- Answers a push whose id exists. Returns whether the id is free now.
local function duplicate(topic, id, mode, record)
  local job = parse(record)
  if not job then
    discard(topic, id)
    return true
  end
  -- The id of a finished job is free again, unless it is remembered for a duration.
  if job.state == 'done' and (mode == 'replace' or mode == 'resend' or not tonumber(settings(topic).remember)) then
    remove(topic, id, job)
    return true
  end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3] = number, 'kept', ''
  if mode ~= 'replace' then
    out[n + 3] = describe(topic, id, job, true)
    return false
  end
  remove(topic, id, job)
  count(topic, 'replaced', 1)
  out[n + 2] = 'replaced'
  return true
end

-- Stores the job whose arguments begin at k. Returns whether it is stored.
local function store(topic, k)
  local id, at, body = ARGV[k], instant(ARGV[k + 2]) + number % 1000, ARGV[k + 6]
  local job = {priority = ARGV[k + 3], more = ARGV[k + 4]}
  if ARGV[k + 5] ~= '' then job.more = job.more .. ' expires=' .. text(math.floor(instant(ARGV[k + 5]) / 1000)) end
  local group = get(job, 'group')
  if closed(group, topic) then
    number = number + 1
    out[#out + 1], out[#out + 2], out[#out + 3] = number, 'closed', ''
    return false
  end
  local long = #job.more + #body > LONG
  local record = string.format('waiting %s %d %d 0 %d', job.priority, math.floor(at / 1000), now, out[2] + number)
    .. job.more .. (long and ' long=1\n' or '\n' .. body)
  number = number + 1
  local key = P .. 'j:' .. topic
  if run.before ~= '' and ARGV[k + 1] == 'replace' then override(topic, id) end
  if call('HSETNX', key, id, record) == 0 then
    if not duplicate(topic, id, ARGV[k + 1], call('HGET', key, id)) then return false end
    call('HSET', key, id, record)
  end
  if long then call('SET', P .. 'b:' .. topic .. '/' .. id, body) end
  if group then join(topic, id, job) end
  file(topic, id, job, at)
  return true
end

out[2] = call('INCRBY', P .. 'rev', ARGV[1]) - ARGV[1] + 1
local i = 2
while i < #ARGV do
  local topic, n, stored = ARGV[i], tonumber(ARGV[i + 1]), 0
  for k = i + 2, i + 7 * n - 5, 7 do
    if store(topic, k) then stored = stored + 1 end
  end
  if stored > 0 then
    count(topic, 'pushed', stored)
    call('SADD', P .. 'topics', topic)
  end
  i = i + 2 + 7 * n
end
return out
