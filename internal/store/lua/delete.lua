#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, describe.
-- Deletes a job.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, id, allowed etags (see matches).
-- Returns {the state it was in ('' no such job, 'done' a finished one, 'other' when it has another etag: they were not
--         deleted), its creation in ms, revision; without a job that of the latest change; and of an occurrence its
--         schedule and nominal time in ms}. A job that was running has
--         lost its lease: the dispatcher cannot settle it, but may have started the callback.
-- Keeps   nothing of the job stays.
local topic, id = ARGV[1], ARGV[2]
local job = find(topic, id)
if not job then return {'', 0, tonumber(call('GET', P .. 'rev') or 0)} end
if job.state == 'done' then return {'done', 0, 0} end
if not matches(ARGV[3], job) then return {'other', 0, 0} end
delete(topic, id, job)
return {job.state, tonumber(job.created), call('INCR', P .. 'rev'), get(job, 'sched'), get(job, 'for')}
