#!lua flags=allow-oom
-- Notes that a host has replayed its journal, and opens the bucket when all hosts that are waited for have.
-- KEYS[1] the bucket's prefix.
-- ARGV    host, name of the comparison, highest revision in its journal, '1' to open in any case, then the hosts that are
--         waited for.
-- Returns {1 when the bucket is open, 0 when hosts are waited for, -1 when another comparison has begun; the revision
--         that the new ones follow, as text}.
-- Keeps   all invariants. Revisions go on behind every one that a journal knows: of two changes the later one has the
--         higher revision, whatever the server lost in between. rv goes an hour later. What the host noted of its
--         journal stays: if this server goes before the bucket is open, the next comparison needs the same lines.
local GAP = 1000000 -- behind the highest revision that is known: a host that is away may know higher ones
local KEPT = 64     -- comparisons that a host may have missed
local id = serverID()
local host, name, highest, force = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local cmp = call('HMGET', P .. 'cmp', 'name', 'run', 'after', 'upto', 'max')
if cmp[1] ~= name or cmp[2] ~= id then return {-1, ''} end
local reached = string.match(call('HGET', P .. 'hosts', host) or '', '^%S+ %S+ (.*)$') or ''
call('HSET', P .. 'hosts', host, string.format('%d ', now) .. name .. ' ' .. reached)
if call('GET', P .. 'run') == id then return {1, cmp[4]} end
highest = math.max(highest, tonumber(cmp[5] or 0), tonumber(call('GET', P .. 'rev') or 0))
call('HSET', P .. 'cmp', 'max', string.format('%d', highest))
for i = 5, #ARGV do
  local at, done = string.match(call('HGET', P .. 'hosts', ARGV[i]) or '0', '^(%-?%d+) ?(%S*)')
  local left = tonumber(at) < 0
  if not force and not left and done ~= name then return {0, ''} end
end
local upto = string.format('%d', highest + GAP)
call('SET', P .. 'rev', upto)
call('HSET', P .. 'cmp', 'upto', upto)
call('RPUSH', P .. 'past', name .. ' ' .. cmp[3] .. ' ' .. upto)
call('LTRIM', P .. 'past', -KEPT, -1)
call('PEXPIRE', P .. 'rv', 3600000)
call('SET', P .. 'run', id)
call('PUBLISH', P .. 'wake', 'O')
call('PUBLISH', P .. 'pull', 'O')
call('PUBLISH', 'wk:registry', 'O')
return {1, upto}
