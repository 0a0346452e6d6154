-- Precedes pushes, which must not store an id that an absent host's journal may have: see guard_early.lua.
if run.before ~= '' then return redis.error_reply('ABSENT only the journal of an absent host may have this job') end
