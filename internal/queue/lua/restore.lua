#!lua
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, copy.
-- Stores jobs from another shard as they were there.
-- KEYS[1] the bucket's prefix.
-- ARGV    six for each job: topic; id; record; body if that has a key of its own, else ''; when it died, in ms, or '';
--         how many attempts, and these.
-- Returns for each its revision here, negative when the same job (same creation time) was there; 0 when the id is
--         another job's.
-- Keeps   a waiting job is in w, f or m, a dead one in dead. No flag: a full Redis refuses the whole script.
local out, i = {}, 1
while i <= #ARGV do
  local topic, id, record, long, died, n = unpack(ARGV, i, i + 5)
  local job, have = parse(record), find(topic, id)
  if have and have.state ~= 'done' then
    out[#out + 1] = have.created == job.created and -have.revision or 0
  else
    if have then remove(topic, id, have) end
    job.revision = text(call('INCR', P .. 'rev'))
    if n ~= '0' then call('RPUSH', P .. 'a:' .. topic .. '/' .. id, unpack(ARGV, i + 6, i + 5 + n)) end
    copy(topic, id, job, long, died, get(job, 'reason'))
    out[#out + 1] = tonumber(job.revision)
  end
  i = i + 6 + n
end
return out
