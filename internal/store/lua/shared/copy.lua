-- Stores a job that is in no set as it was elsewhere: its body, if that has a key of its own, else ''; when it died, in
-- ms, or '', and why.
local function copy(topic, id, job, long, died, reason)
  if long ~= '' then call('SET', P .. 'b:' .. topic .. '/' .. id, long) end
  count(topic, 'pushed', 1)
  call('SADD', P .. 'topics', topic)
  join(topic, id, job)
  if died ~= '' then
    job.state = 'dead' -- it does not count among the waiting ones
    return die(topic, id, job, reason, died * 1000)
  end
  weigh(job, 1)
  write(topic, id, job)
  file(topic, id, job, nextOf(job) * 1000)
end
