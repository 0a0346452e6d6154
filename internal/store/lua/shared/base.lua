-- The beginning of every script, after the time (clock.lua). KEYS[1] is the bucket's prefix, 'wk:{BUCKET}:', which all
-- keys of the bucket share, so that they are in one slot of a Cluster; ../keys.go lists them. Times are Unix
-- milliseconds.
local P, call = KEYS[1], redis.call
local now = math.floor(micros / 1000)
local DUE = 1000 * now + 999 -- jobs up to this microsecond are due: a job is due from the beginning of its millisecond
-- Revisions of an opened bucket begin at so many for each ms since 2026: more than changes happen, and 13 digits.
local EPOCH, RATE = 1767225600000, 100
local function text(n) return string.format('%d', n) end -- '..' would write large numbers as 1.76e+12
-- All that shared files pass on in this run of the script. A file that has a field sets it where it begins.
--   before                 while hosts are absent, the revision up to which their journals may have changes, else ''
--                          (the guards)
--   topics                 settings and limits of topics that were read, see topic.lua
--   keys, admit            keys whose jobs changed, and the function that admits their next jobs (key.lua, admit.lua)
--   soonest, offered       the next event of all topics; how many turns were given (wait.lua)
--   known, lists           events of topics that next has; lists of minutes that exist (wait.lua)
--   closed                 who closed groups, see group.lua
--   dispatcherToldOfWork   whether a dispatcher that may wait for work was told of some (wait.lua)
--   full                   whether Redis is nearly full; nil: not checked (finished.lua)
--   delivered, kept, gone  delivered jobs of the topic that is settled (accept.lua)
--   gates                  what the limits of topics still allow, see gate.lua
--   first, visited, found  revision of the first pushed job; how many were visited; what existed (store.lua)
--   out                    the reply of a script that leases jobs
--   revision, taken        of the leases; the token of the call, then for each leased job the number of its request,
--                          topic and id (lease.lua)
--   leases                 of the request that is served: number, token, and ends, which gives the end by TTR
--   idle                   topics without a due job (serve.lua)
--   after                  the revision of the data when the server appeared (lines.lua)
local run = {before = ''}
local PRIORITIES = {'high', 'normal', 'low'}
