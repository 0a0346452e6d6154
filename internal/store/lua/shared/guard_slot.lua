-- Precedes every script on a Cluster. While a slot moves to another node its keys are on both: a script that missed
-- some of them would take the bucket for empty, or stop in the middle. Both nodes answer a request for two keys that
-- are missing with an error: the script then does nothing. The slot guard, a key that is the bucket's bare prefix,
-- shows that the bucket is here. Without it the bucket is new (slotguard.go), or on another node.
if type(redis.pcall('EXISTS', P .. 'none', P .. 'never')) == 'table' then
  return redis.error_reply('TRYAGAIN the bucket is being moved to another node')
end
if call('EXISTS', P) == 0 then return redis.error_reply('NOBUCKET the slot guard is not here') end
