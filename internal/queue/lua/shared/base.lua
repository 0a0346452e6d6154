-- The beginning of every script. KEYS[1] is the bucket's prefix, 'wk:{BUCKET}:', which all keys of the bucket share, so
-- that they are in one slot of a Cluster; ../keys.go lists them. Times are Unix milliseconds by this server's clock.
local P, call = KEYS[1], redis.call
local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
-- Revisions of an opened bucket begin at so many for each ms since 2026: more than changes happen, and 13 digits.
local EPOCH, RATE = 1767225600000, 100
local function text(n) return string.format('%d', n) end -- '..' would write large numbers as 1.76e+12
local PRIORITIES = {'high', 'normal', 'low'}
