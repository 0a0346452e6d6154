#!lua flags=no-writes
-- With: record, group, describe.
-- Reads the jobs of a group that belong to some topics, a step at a time.
-- KEYS[1] the bucket's prefix.
-- ARGV    group, topic patterns, cursor ('0' in the first step), about how many jobs, how many to describe.
-- Returns {now in µs, cursor ('0' at the end), until when the group is closed for some of them (ms; 0 if not), then how
--         many are delayed, ready, running and dead, then topic and description of each}.
-- Keeps   it writes nothing.
local group, patterns, left = ARGV[1], ARGV[2], tonumber(ARGV[5])
local marks = call('HGETALL', P .. 'x:' .. group)
local out, DELAYED, READY, RUNNING, DEAD = {micros, '0', 0, 0, 0, 0, 0}, 4, 5, 6, 7
for i = 1, #marks, 2 do
  if marks[i] == patterns or within(patterns, marks[i]) then out[3] = math.max(out[3], tonumber(marks[i + 1])) end
end

local function show(topic, id, job)
  if not job then return end
  local waits = nextOf(job) > now and DELAYED or READY
  local at = job.state == 'running' and RUNNING or job.state == 'dead' and DEAD or waits
  out[at] = out[at] + 1
  if left == 0 then return end
  left = left - 1
  out[#out + 1], out[#out + 2] = topic, describe(topic, id, job)
end

out[2] = visit(group, patterns, ARGV[3], ARGV[4], show)
return out
