-- Takes jobs out of a tube's delay queue of Grape into claims, with ../importer/claim.lua.
--
-- KEYS   claims, number of the last claim, the delay queue (a sorted set by Unix ms), the lock of its consumers and
--        that of consumers of earlier versions
-- ARGV   three as in ../importer/claim.lua, what a job's key begins with, what its claim's name begins with
-- Result as in ../importer/claim.lua
--
-- A claim is NUMBER CLAIMED DUE TTR BODY with times in ms. A job is a hash with id, dtr, ttr, noe and data.
--
-- Invariant: a job is there or in claims, never in both, and no consumer has it. A consumer that holds the lock may
-- have read jobs that are due and not moved them to the retain queue yet. Its clock may be a minute fast. What is not a
-- job Grape removes.
local NEVER, DAY = 1e15, 86400000
local locked = not count and call('EXISTS', KEYS[4]) + call('EXISTS', KEYS[5]) > 0

return claim('set', function(id, score)
  local key, due = ARGV[4] .. id, tonumber(score)
  local ttr, data = unpack(call('HMGET', key, 'ttr', 'data'))
  ttr = tonumber(ttr or '')
  if locked and due < now + 60000 or not ttr or not data or not accepts(id) then return false end
  local head = string.format('%.0f %.0f %.0f ', now, math.min(due, NEVER), math.min(ttr, DAY))
  return true, ARGV[5] .. id, head .. data, {'DEL', key}
end)
