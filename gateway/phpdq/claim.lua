-- Takes jobs out of a bucket or a ready queue of php-delayqueue into claims, with ../importer/claim.lua.
--
-- KEYS   claims, number of the last claim, the bucket (a sorted set) or the ready queue (a list), job_info
-- ARGV   three as in ../importer/claim.lua, "bucket" or "ready", the topics that may be taken
-- Result as in ../importer/claim.lua; a job's name is TOPIC:ID
--
-- A claim is NUMBER CLAIMED SCORE BODY: the time in ms, and the score in the bucket or nothing.
--
-- Invariant: a job is in the bucket or the ready queue, or in claims, never in both. Jobs without a body are removed:
-- the consumers ignore them.
local topics = {}
for i = 5, #ARGV do topics[ARGV[i]] = true end

return claim(ARGV[4] == 'bucket' and 'set' or 'head', function(name, score)
  local topic, id = string.match(name, '^([^:]*):(.*)$')
  if not topics[topic] or id == '' or not accepts(id) then return false end
  local body = call('HGET', KEYS[4], name)
  if not body then return true end
  return true, name, string.format('%.0f %s ', now, score or '') .. body, {'HDEL', KEYS[4], name}
end)
