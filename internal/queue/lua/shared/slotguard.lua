-- Precedes every script on a Cluster. While a slot moves to another node its keys are on both: a script that missed
-- some of them would take the bucket for empty, or stop in the middle. The slot guard, a key that is the bucket's bare
-- prefix, shows where the bucket is. Without it the script does nothing: the bucket is new (slotguard.go), or moving to
-- this node. A node that gives a slot away answers requests for missing keys with an error: the script then does
-- nothing either, until the slot has moved.
if type(redis.pcall('EXISTS', KEYS[1] .. 'none')) == 'table' then
  return redis.error_reply('TRYAGAIN the bucket is being moved to another node')
end
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('NOBUCKET the slot guard is not here') end
