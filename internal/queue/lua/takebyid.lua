#!lua flags=allow-oom
-- With: record, topic, totals, order, wait, remove, dead, describe, gate, lease.
-- Leases a job that is named by its id to a worker: a waiting or dead one, whatever its topic's limits are.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, id, token of the lease.
-- Returns {now in µs, revision}, then if the job was leased: six values, see answer in shared/lease.lua.
-- Keeps   the job is never ready in between, so nobody else gets it. The same token again returns it again.
local out, topic, id, token = run.out, ARGV[1], ARGV[2], ARGV[3]
local job = find(topic, id)
if not job or job.state == 'done' then return out end
if job.state == 'running' then
  if get(job, 'token') ~= token then return out end
  out[2] = tonumber(job.revision)
  answer(topic, id, job.record, tonumber(call('ZSCORE', P .. 'l:' .. topic, id)), job.attempts, job.more)
  return out
end
local expires = tonumber(get(job, 'expires'))
if job.state == 'waiting' and expires and expires <= now then return out end
local was = job.state
takeOut(topic, id, job)
if was == 'dead' then redrive(topic, id, job) end
begin(token)
run.leases = {number = 1, token = token, ends = function(ttr) return now + ttr end}
job.state = 'waiting'
local record, ends = lease(topic, id, string.match(render(job), WAITING))
call('HSET', P .. 'j:' .. topic, id, record)
call('ZADD', P .. 'l:' .. topic, ends, id)
event(topic, ends)
return out
