#!lua flags=allow-oom
-- With: server.
-- Stores that a host is running and how far its journal reaches. When the server is not the one that hosts have
-- compared their journals with, or the data is gone, it begins a comparison: see shards_compare.go.
-- KEYS[1] the bucket's prefix.
-- ARGV    host, position of the end of its journal, '1' when the host leaves, a unique name in case a comparison
--         begins, the format of the data that this version stores.
-- Returns {now, open (1 when the other scripts work), name of the comparison, revision up to which the data reaches,
--         the position that the host noted last, or '', 1 when the bucket is empty; the comparisons that the host
--         has missed, each as name, after and upto; '', then host and when it last attended (negative: it left
--         then), for all others}.
-- Keeps   all invariants. While it is not open no script changes a job, so cmp.after is the revision of the data when
--         the server appeared. hosts has "at comparison position" for each host: when it last attended (negative: it
--         left), the comparison up to which it has done all ('-': none) and how far its journal was written. A host
--         that was silent for so long is forgotten: when it returns it reads all of its journal.
local KEPT = 7 * 86400000
local id = serverID()
local host, position, leaves, name = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
local open = call('GET', P .. 'run') == id
local cmp = call('HMGET', P .. 'cmp', 'name', 'run', 'after', 'upto')
local revision = call('GET', P .. 'rev')
local empty = not revision and call('EXISTS', P .. 'topics') == 0
if empty then
  call('SET', P .. 'format', ARGV[5])
elseif call('GET', P .. 'format') ~= ARGV[5] then
  return redis.error_reply('OTHERFORMAT the data was written by another version of Wakecall')
end
if not open and (cmp[2] ~= id or cmp[4]) then
  cmp[1] = name
  call('DEL', P .. 'cmp', P .. 'rv')
  call('HSET', P .. 'cmp', 'name', name, 'run', id, 'after', revision or 0, 'at', string.format('%d', now))
  call('PUBLISH', P .. 'wake', 'C')
  call('PUBLISH', 'wk:registry', 'C')
end
local noted = call('HGETALL', P .. 'hosts')
local done, known
local others = {}
for i = 1, #noted, 2 do
  local at, last, reached = string.match(noted[i + 1], '^(%-?%d+) (%S+) (.*)$')
  at = tonumber(at)
  if noted[i] == host then
    done, known = last, reached
  elseif now - math.abs(at) > KEPT then
    call('HDEL', P .. 'hosts', noted[i])
  else
    others[#others + 1], others[#others + 2] = noted[i], string.format('%d', at)
  end
end
local missed = {}
if open and done ~= cmp[1] then
  for _, one in ipairs(call('LRANGE', P .. 'past', 0, -1)) do
    local no, after, upto = string.match(one, '^(%S+) (%-?%d+) (%d+)$')
    for _, v in ipairs({no, after, upto}) do missed[#missed + 1] = v end
    if no == done then missed = {} end
  end
end
if open and #missed == 0 then done, known = cmp[1] or '-', position end
call('HSET', P .. 'hosts', host, string.format('%d ', leaves and -now or now) .. (done or '-') .. ' ' .. (known or ''))
local out = {now, open and 1 or 0, cmp[1] or '', tonumber(revision or 0), known or '', empty and 1 or 0}
for _, v in ipairs(missed) do out[#out + 1] = v end
out[#out + 1] = ''
for _, v in ipairs(others) do out[#out + 1] = v end
return out
