#!lua
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, describe, store.
-- Stores jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs; then runs of jobs of one topic: the topic, how many, then seven for each job, see store.lua.
-- Returns {now in µs, revision of the first job, then what was found, see store.lua}.
-- Keeps   a job's record is stored with its entry in w or f. No flag: a full Redis refuses the script before it writes.
run.first = call('INCRBY', P .. 'rev', ARGV[1]) - ARGV[1] + 1
local i = 2
while i < #ARGV do
  local topic, n = ARGV[i], tonumber(ARGV[i + 1])
  storeAll(topic, i + 2, n)
  i = i + 2 + 7 * n
end
return {micros, run.first, unpack(run.found)}
