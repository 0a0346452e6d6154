-- Ends the leases of delivered jobs. Most leases end this way, so those of a topic are ended together, but for jobs
-- that somebody waits for.
-- All delivered jobs of a topic, ids and records of those that are remembered, ids of the others.
run.delivered, run.kept, run.gone = {}, {}, {}

-- Notes that a running job was delivered, with its result, '' if it has none. Returns what it is now.
local function accept(topic, id, job, line, result)
  run.delivered[#run.delivered + 1] = id
  set(job, 'token', nil)
  if job.more ~= '' then leaveKey(topic, id, job) end
  noteOccurrence(topic, id, job, 'done')
  local awaited = get(job, 'await')
  if not awaited and (line == '' or not remembers(topic)) then
    clear(topic, id, job)
    run.gone[#run.gone + 1] = id
    return 'gone'
  end
  if get(job, 'long') then
    call('UNLINK', P .. 'b:' .. topic .. '/' .. id)
    set(job, 'long', nil)
    set(job, 'bodygone', 1)
  end
  leaveGroup(topic, id, job)
  weigh(job, -1)
  job.state, job.attempts = 'done', job.attempts + 1
  if awaited then
    if line == '' then line = string.format('{"n":%d,"started_at":%d,"took_ms":0}', job.attempts, now) end
    keepAnswer(topic, id, job, line, result, ANSWERED)
    return 'answered'
  end
  run.kept[#run.kept + 1] = id
  run.kept[#run.kept + 1] = render(job, ' last=' .. line)
  return 'gone'
end

-- Writes what accept has collected, at once for all jobs of a topic. Returns whether the topic remembers some of them.
local function deliver(topic)
  if #run.delivered == 0 then return false end
  call('ZREM', P .. 'l:' .. topic, unpack(run.delivered))
  if #run.gone > 0 then call('HDEL', P .. 'j:' .. topic, unpack(run.gone)) end
  if #run.kept > 0 then keepFinished(topic, run.kept, 0) end
  count(topic, 'delivered', #run.delivered)
  local kept = #run.kept > 0
  run.delivered, run.kept, run.gone = {}, {}, {}
  return kept
end
