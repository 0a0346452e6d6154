#!lua flags=allow-oom
-- With: deadline, record, topic, totals, wait, remove, describe.
-- Deletes a job.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, id, allowed etags (see matches).
-- Returns {the state it was in ('' no such job, 'other' when it has another etag and was not deleted), its creation in
--         ms, revision}. A job that was running has lost its lease: the dispatcher cannot settle it, but may have
--         started the callback.
-- Keeps   nothing of the job stays.
local topic, id = ARGV[1], ARGV[2]
local job = find(topic, id)
if not job or job.state == 'done' then return {'', 0, 0} end
if not matches(ARGV[3], job) then return {'other', 0, 0} end
local was = job.state
remove(topic, id, job)
count(topic, was == 'dead' and 'dropped' or 'deleted', 1)
return {was, tonumber(job.created), call('INCR', P .. 'rev')}
