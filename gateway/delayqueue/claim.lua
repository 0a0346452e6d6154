-- Takes jobs out of a bucket or a ready queue of delay-queue into claims, with ../importer/claim.lua.
--
-- KEYS   claims, number of the last claim, the bucket (a sorted set by Unix s) or the ready queue (a list)
-- ARGV   three as in ../importer/claim.lua, "bucket" or "ready", Unix s: what was due then at the head of a bucket is
--        taken too
-- Result as in ../importer/claim.lua
--
-- A claim is NUMBER CLAIMED DUE TTR LENGTH TOPICBODY: times in ms, and the length of the topic. A job is msgpack in the
-- key of its id.
--
-- Invariant: a job is there or in claims, never in both, and no consumer has it. A timer copies a due entry at the head
-- of its bucket to a ready queue and then removes it, so these are left to it. An entry that is not due
-- belongs to a job that was popped: its consumer has it. Entries without a job are left to delay-queue, which removes
-- them.
local HEAD = 16 -- more than there are servers
local bucket, stuck, seconds = ARGV[4] == 'bucket', tonumber(ARGV[5]), tonumber(clock[1])

local function read(id)
  if call('TYPE', id).ok ~= 'string' then return nil end
  local ok, job = pcall(cmsgpack.unpack, call('GET', id))
  if not ok or type(job) ~= 'table' or job.Id ~= id or not job.Topic or not job.Body then return nil end
  job.Delay, job.TTR = tonumber(job.Delay), tonumber(job.TTR)
  return job.Delay and job.TTR and job
end

local function free(job, score, rank)
  if not bucket or job.Delay > seconds + 1 then return true end
  return score <= seconds and (rank >= HEAD or score <= stuck)
end

return claim(bucket and 'set' or 'head', function(id, score, rank)
  local job = read(id)
  if not job or not accepts(id) or not free(job, tonumber(score), rank) then return false end
  local head = string.format('%.0f %.0f %.0f %d ', now, job.Delay * 1000, job.TTR * 1000, #job.Topic)
  return true, id, head .. job.Topic .. job.Body, {'DEL', id}
end)
