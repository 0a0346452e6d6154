-- Leases of delivered jobs: they end together, a topic at a time.
-- All delivered jobs of a topic, ids and records of those that are remembered, ids of the others.
run.delivered, run.kept, run.gone = {}, {}, {}

-- Ends the lease of a delivered job. This is how most leases end, so its record is not parsed as a whole. Returns its
-- creation and attempts; nil if the token ('' any) is not that of its lease.
local function accept(topic, id, record, token, revision, line)
  local front, created, attempts, more, held, rest = string.match(record or '', RUNNING)
  if not front or token ~= '' and token ~= held then return nil end
  local plain, forgets = more == '' and attempts == '0' and run.before == '', line == '' or not remembers(topic)
  local job = forgets and not plain and parse(record)
  if job == nil then return nil end -- damaged: its lease expires, and the job is set aside
  run.delivered[#run.delivered + 1] = id
  if forgets then
    if job then clear(topic, id, job) end
    run.gone[#run.gone + 1] = id
    return created, attempts
  end
  if pair(more, 'long') then
    call('UNLINK', P .. 'b:' .. topic .. '/' .. id)
    more = string.gsub(more, ' long=1', '') .. ' bodygone=1'
  end
  run.kept[#run.kept + 1] = id
  run.kept[#run.kept + 1] = joined('done', front, attempts + 1, revision, more .. ' last=' .. line .. rest)
  return created, attempts
end

-- Writes what accept has collected, at once for all jobs of a topic.
local function deliver(topic)
  if #run.delivered == 0 then return end
  call('ZREM', P .. 'l:' .. topic, unpack(run.delivered))
  if #run.gone > 0 then call('HDEL', P .. 'j:' .. topic, unpack(run.gone)) end
  if #run.kept > 0 then keepFinished(topic, run.kept) end
  count(topic, 'delivered', #run.delivered)
  run.delivered, run.kept, run.gone = {}, {}, {}
end
