#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit.
-- Removes jobs that another shard has now, if they are still as they were read.
-- KEYS[1] the bucket's prefix.
-- ARGV    three for each job: topic, id, revision as it was read.
-- Returns {revision of the first, then for each 1 if it was removed, now or by an earlier call whose answer may have
--         been lost; else 0: it was changed, deleted or called}.
-- Keeps   the totals count it as never pushed here, since the other shard counts it now. left remembers the last ones.
local n = #ARGV / 3
local out = {call('INCRBY', P .. 'rev', n) - n + 1}
for i = 1, #ARGV, 3 do
  local topic, id, left = ARGV[i], ARGV[i + 1], 0
  local mark = topic .. '/' .. id .. ' ' .. ARGV[i + 2]
  local job = find(topic, id)
  if job and job.revision == ARGV[i + 2] and job.state ~= 'running' then
    local dead = job.state == 'dead'
    remove(topic, id, job)
    count(topic, 'pushed', -1)
    if dead then count(topic, 'died', -1) end
    call('RPUSH', P .. 'left', mark)
    left = 1
  elseif not job and call('LPOS', P .. 'left', mark) then
    left = 1
  end
  out[#out + 1] = left
end
call('LTRIM', P .. 'left', -5000, -1)
call('PEXPIRE', P .. 'left', 60000)
return out
