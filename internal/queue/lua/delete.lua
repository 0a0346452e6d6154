#!lua flags=allow-oom
-- Deletes a job.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, address (see find), id, allowed etags (see matches).
-- Returns {the state it was in (d, f, r, u, x; '' for no such job, 'other' when it has another etag and was not
--         deleted), its creation in ms, revision}.
--         A job that was running (u) has lost its lease: the dispatcher cannot settle it, but may have started the
--         callback.
-- Keeps   invariants 1 to 5.
local topic = ARGV[1]
local ref, page, index, rec = find(topic, ARGV[2], ARGV[3])
if not ref then return {'', 0, 0} end
if not matches(ARGV[4], topic, ref, page, index, rec) then return {'other', 0, 0} end
local due, created = decode(rec)
local state = stateOf(topic, ref, page, due)
local revision = revise(1)
total(state == 'x' and 'o' or 'x', topic, 1)
remove(topic, ref, page, index, rec)
finish()
return {state, created or 0, revision}
