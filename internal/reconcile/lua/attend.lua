#!lua flags=allow-oom
-- With: server, hosts.
-- Stores that a host is running and how far its journal reaches. When the server is not the one that hosts have
-- compared their journals with, or the data is gone, it begins a comparison: see reconcile/compare.go.
-- KEYS[1] the bucket's prefix.
-- ARGV    host, position of the end of its journal, '1' when the host leaves, a unique name in case a comparison
--         begins, the format of the data that this version stores, the revision that it got from its last call.
-- Returns {1 when the other scripts work, name of the comparison, revision of the data when the server appeared, or
--         now if the other scripts work, the position that the host noted last, or ''; the
--         comparisons that the host has missed, each as name, after and upto; '', then host and when it last attended
--         ('0' when it was forgotten), for all others}.
-- Keeps   all invariants. While it is not open, hosts stays as it was when the server appeared, and cmp.after is the
--         revision of the data then; new revisions follow cmp.base, which is above all that any journal has.
local KEPT = 7 * 86400000 -- a host that was silent for so long reads all of its journal when it returns
local GAP = 1000000       -- more than the changes between two calls of a host
local id = serverID()
local host, position, leaves, name = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
local open, revision = isCompared(id), call('GET', P .. 'rev')
local empty = not revision and call('EXISTS', P .. 'topics') == 0
if empty then
  call('SET', P .. 'format', ARGV[5])
elseif call('GET', P .. 'format') ~= ARGV[5] then
  return redis.error_reply('OTHERFORMAT the data was written by another version of Wakecall')
end
local cmp = call('HMGET', P .. 'cmp', 'name', 'run', 'after', 'upto', 'empty')
if not open then
  if cmp[2] ~= id or cmp[4] then
    -- When the last one has not ended, the same changes are missing.
    if not cmp[1] or cmp[4] then cmp[3], cmp[5] = revision or '0', empty and '1' or '0' end
    cmp[1] = name
    local base = text(math.max(tonumber(revision or 0), (now - EPOCH) * RATE, ARGV[6] + GAP))
    call('DEL', P .. 'cmp')
    call('HSET', P .. 'cmp', 'name', name, 'run', id, 'after', cmp[3], 'empty', cmp[5], 'base', base, 'at', text(now))
    call('SET', P .. 'rev', base)
    call('PERSIST', P .. 'rv')
    call('PUBLISH', P .. 'wake', 'C')
    call('PUBLISH', 'wk:registry', 'C')
  end
  call('HSET', P .. 'cmp', 'at ' .. host, text(now))
end

local hosts, others, missed = readHosts(), {}, {}
local done, known
if hosts[host] then done, known = hosts[host].comparison, hosts[host].journal end
hosts[host] = nil
for name, other in pairs(hosts) do
  local forgotten = other.state == 'forgotten'
  if open and now - other.at > KEPT and not forgotten then
    removeHost(name)
  else
    others[#others + 1], others[#others + 2] = name, forgotten and '0' or other.at
  end
end
if open and done ~= cmp[1] then
  for _, one in ipairs(call('LRANGE', P .. 'past', 0, -1)) do
    local no, after, upto = string.match(one, '^(%S+) (%-?%d+) (%d+)$')
    for _, v in ipairs({no, after, upto}) do missed[#missed + 1] = v end
    if no == done then missed = {} end
  end
end
if open then
  local complete = #missed == 0
  if complete then done, known = cmp[1] or '-', position end
  writeHost(host, done or '-', known or '', leaves and complete and 'left' or 'running')
end
local out = {open and 1 or 0, cmp[1] or '', tonumber(open and revision or cmp[3]) or 0, known or ''}
for _, v in ipairs(missed) do out[#out + 1] = v end
out[#out + 1] = ''
for _, v in ipairs(others) do out[#out + 1] = v end
return out
