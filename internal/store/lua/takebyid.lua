#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, gate, lease.
-- Leases a job that is named by its id to a worker: a waiting or dead one, whatever its topic's limits are.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, id, token of the lease.
-- Returns {now in µs, revision}, then if the job was leased: six values, see answer in shared/lease.lua.
-- Keeps   the job is never ready in between, so nobody else gets it. The same token again returns it again.
local topic, id, token = ARGV[1], ARGV[2], ARGV[3]
if answerAgain(topic, id, token) then return run.out end
local job = find(topic, id)
if not job or job.state ~= 'waiting' and job.state ~= 'dead' then return run.out end
takeOut(topic, id, job)
if job.state == 'dead' then redrive(topic, id, job) end
write(topic, id, job)
intrude(topic, id, job)
begin(token)
run.leases = {number = 1, token = token, ends = function(ttr) return now + ttr end}
local _, ends = lease(topic, nil, {id})
event(topic, ends)
return run.out
