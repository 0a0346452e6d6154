#!lua flags=allow-oom
-- With: server, hosts.
-- Stores that a host is running, and its journal's end position. When the server is not the one that hosts have
-- compared their journals with, or the data is gone, it begins a comparison: see reconcile/compare.go.
-- KEYS[1] the bucket's prefix.
-- ARGV    host; its journal's end position; '1' when the host leaves; a unique name in case a comparison begins; the
--         format of the data that this version stores; the revision that the host got from its last call.
-- Returns {1 when the other scripts work; name of the comparison; revision of the data when the server appeared, or
--         now if the other scripts work; the position that the host stored last, or ''; the comparisons that the host
--         has missed, a list of name, after and upto for each; a list of host and when it last attended ('0' when it
--         was forgotten) for all others}.
-- Keeps   all invariants. While the bucket is not open, hosts stays as it was when the server appeared, and cmp.after
--         is the revision of the data then; new revisions follow cmp.base, which is above all that any journal has.
local KEPT = 7 * 86400000 -- a host that was silent for so long reads all of its journal when it returns
local GAP = 1000000       -- more than the changes between two calls of a host
local host, position, leaves, name = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
local open, _, begun = comparison()
local revision = call('GET', P .. 'rev')
if not revision then -- the bucket is empty
  call('SET', P .. 'format', ARGV[5])
elseif call('GET', P .. 'format') ~= ARGV[5] then
  return redis.error_reply('OTHERFORMAT the data was written by another version of Wakecall')
end

local cmp = readHash('cmp')
if not begun then
  if not cmp.name or cmp.upto then -- when the last comparison has not ended, the same changes are missing
    cmp.after = revision or '0'
  end
  cmp.name = name
  local base = text(math.max(tonumber(revision or 0), (now - EPOCH) * RATE, ARGV[6] + GAP))
  call('DEL', P .. 'cmp')
  call('HSET', P .. 'cmp', 'name', name, 'run', serverID(), 'after', cmp.after, 'base', base, 'at', text(now))
  call('SET', P .. 'rev', base)
  call('PERSIST', P .. 'rv')
  call('PUBLISH', P .. 'wake', 'C')
  call('PUBLISH', 'wk:registry', 'C')
end

local hosts, others, missed = readHosts(), {}, {}
local mine = hosts[host] or {comparison = '-', journal = ''}
for other, is in pairs(hosts) do
  if open and now - is.at > KEPT and is.state ~= 'forgotten' then
    removeHost(other)
  elseif other ~= host then
    others[#others + 1], others[#others + 2] = other, is.state == 'forgotten' and '0' or is.at
  end
end
if open then
  if mine.comparison ~= cmp.name then
    local done = call('LPOS', P .. 'past', mine.comparison)
    missed = call('LRANGE', P .. 'past', done and done + 3 or 0, -1)
  end
  local complete = #missed == 0
  if complete then mine.comparison, mine.journal = cmp.name, position end
  writeHost(host, mine.comparison, mine.journal, leaves and complete and 'left' or 'running')
else
  call('HSET', P .. 'cmp', 'at ' .. host, text(now))
end
return {open and 1 or 0, cmp.name, tonumber(open and revision or cmp.after) or 0, mine.journal, missed, others}
