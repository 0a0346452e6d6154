#!lua flags=allow-oom
-- Tells a bucket that a host is at work and how far its journal reaches. When another server answers than the one that hosts have
-- compared their journals with, or when the data is gone, it begins a comparison: see shards_compare.go.
-- KEYS[1] the bucket's prefix.
-- ARGV    host, position of the end of its journal, '1' when the host leaves.
-- Returns {now, open (1 when the other scripts work), number of the comparison, revision up to which the data reaches, the
--         position that the host noted last, or '', '' or what an older version noted of the host ('same', 'until MS'), 1 when the bucket holds nothing;
--         the comparisons that the host has missed, each as number, after and upto; '', then host and what it noted, for all}.
-- Keeps   all invariants. While it is not open no script changes a job, so cmp.after is what the data reached when the server
--         came. hosts has "at done position" of each host: when it was heard of (0: it left), the comparison it has done last.
local id = serverID()
local host, position, leaves = ARGV[1], ARGV[2], ARGV[3]
local open = call('GET', P .. 'run') == id
local cmp = call('HMGET', P .. 'cmp', 'no', 'run', 'after', 'upto')
local number, revision = tonumber(cmp[1] or 0), call('GET', P .. 'rev')
if not open and (cmp[2] ~= id or cmp[4]) then
  number = number + 1
  call('DEL', P .. 'cmp', P .. 'rv')
  call('HSET', P .. 'cmp', 'no', number, 'run', id, 'after', revision or 0)
end
local noted = call('HGET', P .. 'hosts', host) or ''
local done, known = string.match(noted, '^%d+ (%d+) (.*)$')
local missed = {}
if open and (not done or tonumber(done) < number) then
  for _, one in ipairs(call('LRANGE', P .. 'past', 0, -1)) do
    local no, after, upto = string.match(one, '^(%d+) (%-?%d+) (%d+)$')
    if tonumber(no) > tonumber(done or 0) then
      for _, v in ipairs({no, after, upto}) do missed[#missed + 1] = v end
    end
  end
  if #missed == 0 then done = number end -- of a new host, or one that was away while nothing was lost
end
local wrote = known or ''
if open and #missed == 0 then wrote = position end
call('HSET', P .. 'hosts', host, string.format('%d %d ', leaves == '1' and 0 or now, done or 0) .. wrote)
local empty = not revision and call('EXISTS', P .. 'nd', P .. 'nr', P .. 'nu', P .. 'nx') == 0
local older = not revision and call('HGET', P .. 'seen', host) or ''
if older ~= '' then older = string.find(older, id, 1, true) and 'same' or 'until ' .. string.match(older, '^%d+') end
local out = {now, open and 1 or 0, number, tonumber(revision or 0), known or '', older or '', empty and 1 or 0}
for _, v in ipairs(missed) do out[#out + 1] = v end
out[#out + 1] = ''
for _, v in ipairs(call('HGETALL', P .. 'hosts')) do out[#out + 1] = v end
return out
