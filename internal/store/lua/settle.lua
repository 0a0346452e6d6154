#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, describe, finished,
-- accept, flow, verbs.
-- Ends or extends leases, and does the same with jobs that are named by their ids.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs; then runs of jobs of one topic: the topic, how many, then ten for each job: id; token of its
--         lease ('' none); states that it may have, when it has no lease (delayed, ready, running, dead); verb, see
--         below; ms; reason of a death; attempt as JSON, or ''; what it says of the endpoint ('up', 'down' or ''); a
--         running job's new priority and order, or ''; of done: its result as JSON, or ''.
--         Verbs: done; retry after ms; fail: retry after ms, or the job's own wait, or dead after its last attempt;
--         lapse: fail at once, if the lease has expired; snooze for ms, no attempt counted; release for ms ('' at the
--         head of its priority); bury; expire; extend for ms ('' its TTR).
-- Returns {now in µs, revision of the first, then six for each job: what it is now ('' unchanged: its lease was over,
--         or it is in no such state; 'answered' gone, but kept since somebody waited for it), what it was ('' no such
--         job), when it is due or its lease ends, creation,
--         attempts, description if it was released by its id, schedule and nominal time in ms if it was an occurrence
--         that has ended, else ''}.
-- Keeps   a token is compared before anything is written, so a repeated call changes nothing.
local FIELDS = 10
local out, number = {micros, 0}, 0
local function stateOf(job)
  if job.state ~= 'waiting' then return job.state end
  return nextOf(job) > now and 'delayed' or 'ready'
end

local ended = {} -- ids of the topic of this run whose lease has ended

-- Settles the job whose arguments begin at k. Returns what it says of the endpoint, if its lease ended.
local function settle(topic, k, record)
  local id, token, states, verb, ms, reason, line, endpoint, place, result = unpack(ARGV, k, k + FIELDS - 1)
  local n, revision = #out, out[2] + number
  out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5], out[n + 6] = '', '', 0, '', '', ''
  number = number + 1
  if ended[id] == 'gone' or ended[id] == 'answered' then return end
  if ended[id] then record = call('HGET', P .. 'j:' .. topic, id) end
  local job = parse(record)
  if not job or job.state == 'done' then return end
  local was = stateOf(job)
  out[n + 2], out[n + 4] = was, job.created
  if token ~= '' and not unlease(job, token) then return end
  if token == '' and not string.find(states, was, 1, true) then return end
  if verb ~= 'extend' then job.revision = revision end
  if place ~= '' and was == 'running' then
    job.priority = string.match(place, '^%l+')
    set(job, 'order', string.match(place, '%d+$'))
  end
  local at
  if verb ~= 'done' and verb ~= 'extend' and get(job, 'cancelled') then
    out[n + 1], at = withdraw(topic, id, job, verb)
  else
    out[n + 1], at = verbs[verb](topic, id, job, tonumber(ms), reason, line, result)
  end
  out[n + 3], out[n + 5] = at or 0, job.attempts .. ''
  ended[id] = out[n + 1]
  local over = out[n + 1] == 'gone' or out[n + 1] == 'answered' or out[n + 1] == 'dead'
  local schedule = over and get(job, 'sched')
  if schedule then out[n + 6] = schedule .. ' ' .. get(job, 'for') end
  if token == '' and verb == 'release' then out[n + 6] = describe(topic, id, job, true) end
  return was == 'running' and out[n + 1] ~= '' and verb ~= 'extend' and endpoint
end

out[2] = call('INCRBY', P .. 'rev', ARGV[1]) - ARGV[1] + 1
local i = 2
while i < #ARGV do
  local topic, n, says, ids = ARGV[i], tonumber(ARGV[i + 1]), {up = 0, down = 0, [''] = 0}, {}
  for k = i + 2, i + 1 + FIELDS * n, FIELDS do ids[#ids + 1] = ARGV[k] end
  for j, record in ipairs(call('HMGET', P .. 'j:' .. topic, unpack(ids))) do
    local endpoint = settle(topic, i + 2 + FIELDS * (j - 1), record)
    if endpoint then says[endpoint] = says[endpoint] + 1 end
  end
  local kept = deliver(topic)
  ended = {}
  judge(topic, says.up, says.down, says.up + says.down + says[''])
  if not kept then tidy(topic) end
  i = i + 2 + FIELDS * n
end
return out
