-- Goes before every script on a Cluster. While a slot is being moved to another node its keys are in both: a script that found some of them
-- missing would take the bucket for empty, or stop in the middle. The anchor, a key of the bucket's bare prefix, tells where the bucket is.
-- Without it, nothing is done: the bucket is new (anchor.go) or on its way here. On a node that gives a slot away, asking for a key that is not
-- there is an error: nothing is done either, until the slot has moved.
if type(redis.pcall('EXISTS', KEYS[1] .. 'none')) == 'table' then return redis.error_reply('TRYAGAIN the bucket is being moved to another node') end
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('NOBUCKET there is no anchor here') end
