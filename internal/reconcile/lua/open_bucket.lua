#!lua flags=allow-oom
-- With: server, hosts.
-- Stores that a host has replayed its journal, and opens the bucket when all hosts that may know of lost changes have,
-- or are absent.
-- KEYS[1] the bucket's prefix.
-- ARGV    host, name of the comparison, highest revision that it knows, for how long in ms to wait for a silent
--         host; 'late' when it has replayed all comparisons that it had missed, or 'forget' when it will not be back;
--         then the other hosts that it knows.
-- Returns {1 when the bucket is open, 0 while it waits for hosts, -1 when another comparison has begun; the highest
--         revision that was lost, as text; then, when this call has opened the bucket, the hosts that are absent now}.
-- Keeps   all invariants. Revisions continue after every one in any journal: of two changes the later one has the
--         higher revision, whatever the server lost in between. A host that missed an earlier comparison replays both
--         when the bucket is open. While absent has hosts, cmp.before is the revision up to which their journals may
--         have changes, and rv stays, in which they are overridden.
local GAP = 1000000 -- after the highest known revision
local KEPT = 64     -- comparisons that a host may have missed
local LONG = 20     -- times as long the bucket waits for a host that attends
local AWAY = 30000  -- a host that was silent for so many ms when another one attended last had made no change since
local host, name, highest, patience, mode = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local cmp = readHash('cmp')
if mode == 'forget' then name = cmp.name end
if cmp.name ~= name or cmp.run ~= serverID() then return {-1, ''} end

-- Ends the overriding of journals when no host is absent.
local function endAbsence()
  if call('EXISTS', P .. 'absent') == 1 then return end
  call('HDEL', P .. 'cmp', 'before')
  call('PEXPIRE', P .. 'rv', 3600000)
end

local hosts = readHosts()
if cmp.upto then
  if mode == 'forget' then writeHost(host, name, '', 'forgotten') end
  if mode == 'late' then writeHost(host, name, hosts[host] and hosts[host].journal or '', 'running') end
  if mode ~= '' and call('HDEL', P .. 'absent', host) == 1 then endAbsence() end
  return {1, cmp.base}
end
if mode == 'forget' then return {0, ''} end
cmp.max, cmp['by ' .. host] = math.max(highest, cmp.max or 0), '1'
call('HSET', P .. 'cmp', 'max', text(cmp.max), 'by ' .. host, '1')

local newest, involved = 0, {} -- hosts whose journals may have changes that the data lost
for field in pairs(cmp) do
  local of = string.match(field, '^at (.+)$')
  if of then involved[of] = true end
end
for i = 6, #ARGV do
  if not hosts[ARGV[i]] and cmp.after == '0' and cmp.max > 0 then involved[ARGV[i]] = true end
end
for _, is in pairs(hosts) do newest = math.max(newest, is.at) end
for of, is in pairs(hosts) do
  if is.state == 'running' and tonumber(is.at) > newest - AWAY then involved[of] = true end
end

local absent, began = {}, tonumber(cmp.at)
for of in pairs(involved) do
  if not cmp['by ' .. of] and call('HEXISTS', P .. 'absent', of) == 0 then
    local at = tonumber(cmp['at ' .. of] or began)
    if now - at <= patience and now - began <= LONG * patience then return {0, ''} end
    absent[#absent + 1] = of
  end
end
-- See clear in shared/remove.lua: jobs that were stored during the comparison replace what absent hosts may have.
local upto = text(math.max(tonumber(call('GET', P .. 'rev')), (now - EPOCH) * RATE))
if cmp.max > tonumber(upto) then -- the server's clock is behind, and the host that met it did not know its revision
  upto = text(cmp.max + GAP)
  cmp.base = upto
end
local last = call('LINDEX', P .. 'past', -3) -- the comparison before this one
for field in pairs(cmp) do
  local by = string.match(field, '^by (.+)$')
  if by then
    local is = hosts[by] or {comparison = '-', journal = ''}
    writeHost(by, (not last or last == is.comparison) and name or is.comparison, is.journal, 'running')
  end
end
for _, of in ipairs(absent) do call('HSET', P .. 'absent', of, text(now)) end
call('SET', P .. 'rev', upto)
call('HSET', P .. 'cmp', 'upto', upto, 'base', cmp.base, 'before', upto)
call('RPUSH', P .. 'past', name, cmp.after, cmp.base)
call('LTRIM', P .. 'past', -3 * KEPT, -1)
endAbsence()
call('PUBLISH', P .. 'wake', 'O')
call('PUBLISH', P .. 'pull', 'O')
call('PUBLISH', P .. 'ended', 'O')
call('PUBLISH', 'wk:registry', 'O')
return {1, cmp.base, unpack(absent)}
