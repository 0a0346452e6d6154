#!lua flags=allow-oom
-- Removes jobs that another shard has now, if they are still as they were read.
-- KEYS[1] the bucket's prefix.
-- ARGV    six for each job: topic, address (see find), id, reference, when it becomes ready, or died, in ms, attempts
--         as in a:PAGE, or ''.
-- Returns the revision of the first, then for each 1 if it was removed, now or by an earlier call whose answer may
--         have been lost; else 0: it was changed, deleted or called.
-- Keeps   invariants 1 to 5: the totals count it as never pushed here, since the other shard counts it now. left
--         remembers the last ones.
local out = {revise(#ARGV / 6)}
for i = 1, #ARGV, 6 do
  local topic, wanted, left = ARGV[i], ARGV[i + 3], 0
  local ref, page, index, rec = find(topic, ARGV[i + 1], ARGV[i + 2])
  if ref == tonumber(wanted) then
    local state, at = stateOf(topic, ref, page, (decode(rec)))
    local same = at == tonumber(ARGV[i + 4]) and (call('HGET', P .. 'a:' .. page, index) or '') == ARGV[i + 5]
    if same and (state == 'd' or state == 'f' or state == 'x') then
      total('p', topic, -1)
      if state == 'x' then total('k', topic, -1) end
      remove(topic, ref, page, index, rec)
      call('RPUSH', P .. 'left', wanted)
      left = 1
    end
  elseif not ref and call('LPOS', P .. 'left', wanted) then
    left = 1
  end
  out[#out + 1] = left
end
call('LTRIM', P .. 'left', -5000, -1)
call('PEXPIRE', P .. 'left', 60000)
finish()
return out
