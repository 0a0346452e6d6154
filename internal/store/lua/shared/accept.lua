-- Ends the leases of delivered jobs. Most leases end this way, so those of a topic are ended together.
-- All delivered jobs of a topic, ids and records of those that are remembered, ids of the others.
run.delivered, run.kept, run.gone = {}, {}, {}

-- Notes that a running job was delivered.
local function accept(topic, id, job, line)
  run.delivered[#run.delivered + 1] = id
  set(job, 'token', nil)
  if job.more ~= '' then leaveKey(topic, id, job) end
  noteOccurrence(topic, id, job, 'done')
  if line == '' or not remembers(topic) then
    clear(topic, id, job)
    run.gone[#run.gone + 1] = id
    return
  end
  if get(job, 'long') then
    call('UNLINK', P .. 'b:' .. topic .. '/' .. id)
    set(job, 'long', nil)
    set(job, 'bodygone', 1)
  end
  leaveGroup(topic, id, job)
  job.state, job.attempts = 'done', job.attempts + 1
  run.kept[#run.kept + 1] = id
  run.kept[#run.kept + 1] = render(job, ' last=' .. line)
end

-- Writes what accept has collected, at once for all jobs of a topic. Returns whether the topic remembers some of them.
local function deliver(topic)
  if #run.delivered == 0 then return false end
  call('ZREM', P .. 'l:' .. topic, unpack(run.delivered))
  if #run.gone > 0 then call('HDEL', P .. 'j:' .. topic, unpack(run.gone)) end
  if #run.kept > 0 then keepFinished(topic, run.kept) end
  count(topic, 'delivered', #run.delivered)
  local kept = #run.kept > 0
  run.delivered, run.kept, run.gone = {}, {}, {}
  return kept
end
