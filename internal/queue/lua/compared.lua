#!lua flags=allow-oom
-- With: server.
-- Stores that a host has replayed its journal, and opens the bucket when all hosts to wait for have.
-- KEYS[1] the bucket's prefix.
-- ARGV    host, name of the comparison, highest revision in its journal, for how long in ms to wait for a silent
--         host, '1' when it has replayed all comparisons that it had missed, then the hosts to wait for.
-- Returns {1 when the bucket is open, 0 while it waits for hosts, -1 when another comparison has begun; the revision
--         that new ones follow, as text; then, when this call has opened the bucket, the hosts that did not
--         answer in time}.
-- Keeps   all invariants. Revisions continue after every one in any journal: of two changes the later one has the
--         higher revision, whatever the server lost in between. rv expires after an hour. The host's position in its
--         journal stays: if this server fails before the bucket is open, the next comparison needs the same lines. A
--         host that missed an earlier comparison has not done all up to this one: it replays both when the bucket
--         is open.
local GAP = 1000000 -- after the highest known revision
local RATE = 100    -- more than the changes in a millisecond: skips those, too, that only an absent host knows
local KEPT = 64     -- comparisons that a host may have missed
local LONG = 20     -- times as long the bucket waits for a host that attends
local id = serverID()
local host, name, highest, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local cmp = call('HMGET', P .. 'cmp', 'name', 'run', 'after', 'upto', 'max', 'at')
if cmp[1] ~= name or cmp[2] ~= id then return {-1, ''} end
local began = tonumber(cmp[6] or 0)
local open = call('GET', P .. 'run') == id

local function heard(of)
  local at, done, reached = string.match(call('HGET', P .. 'hosts', of) or '', '^(%-?%d+) (%S+) (.*)$')
  return tonumber(at or 0), done or '-', reached or ''
end

local _, done, reached = heard(host)
local last = string.match(call('LINDEX', P .. 'past', -1) or '', '^%S+')
if ARGV[5] == '1' or not open and (not last or last == done) then done = name end
call('HSET', P .. 'hosts', host, string.format('%d ', now) .. done .. ' ' .. reached)
if open then return {1, cmp[4]} end
highest = math.max(highest, tonumber(cmp[5] or 0), tonumber(call('GET', P .. 'rev') or 0))
call('HSET', P .. 'cmp', 'max', string.format('%d', highest), 'by ' .. host, '1')
local absent = {}
for i = 6, #ARGV do
  local at = math.abs(heard(ARGV[i]))
  if call('HEXISTS', P .. 'cmp', 'by ' .. ARGV[i]) == 0 then
    if now - math.max(at, began) <= patience and now - began <= LONG * patience then return {0, ''} end
    absent[#absent + 1] = ARGV[i]
  end
end
local upto = string.format('%d', math.max(highest + GAP, now * RATE))
call('SET', P .. 'rev', upto)
call('HSET', P .. 'cmp', 'upto', upto)
call('RPUSH', P .. 'past', name .. ' ' .. cmp[3] .. ' ' .. upto)
call('LTRIM', P .. 'past', -KEPT, -1)
call('PEXPIRE', P .. 'rv', 3600000)
call('SET', P .. 'run', id)
call('PUBLISH', P .. 'wake', 'O')
call('PUBLISH', P .. 'pull', 'O')
call('PUBLISH', 'wk:registry', 'O')
return {1, upto, unpack(absent)}
