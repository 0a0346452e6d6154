-- Drops claims that have been pushed.
--
-- KEYS   claims
-- ARGV   number of the claim, ids of jobs
-- Result how many were dropped
--
-- Invariant: a claim of another number stays: the job was added and claimed again.
local dropped = 0
for i = 2, #ARGV do
  local claim = redis.call('HGET', KEYS[1], ARGV[i])
  if claim and string.sub(claim, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
    dropped = dropped + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return dropped
