#!lua
-- Stores jobs from another shard as they were there, with their creation times and attempts.
-- KEYS[1] the bucket's prefix.
-- ARGV    seven for each job: topic; address (see find); record; the body if that gets a key of its own, else ''; 'd',
--         or 'x' for a dead one; when it becomes ready, or died, in ms; attempts as in a:PAGE, or ''.
-- Returns the revision of the first, then for each its reference; negative when the job already exists (same
--         creation time); 0 when another job has its id.
-- Keeps   invariants 1 to 5. No flag: a full Redis refuses the whole script.
local out = {revise(#ARGV / 7)}
for i = 1, #ARGV, 7 do
  local topic, rec, long, state = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local at, attempts = tonumber(ARGV[i + 5]), ARGV[i + 6]
  local n, field = struct.unpack('>I3c8', ARGV[i + 1])
  local key = smallHash(n, field)
  local due, created, flags, id = decode(rec)
  local ref = 0
  local have, _, _, its = find(topic, ARGV[i + 1], id)
  if have or tonumber(call('HGET', key, field) or -1) >= 0 then -- negative: a finished job's
    if have and select(2, decode(its)) == created then ref = -have end
  else
    -- A dead job is stored as a near one and taken out at once.
    ref = store(topic, flags % 4, state == 'x' and now + 60000 or at, rec, due)
    local page, index = placeOf(ref)
    call('HSET', key, field, string.format('%d', ref))
    if long ~= '' then call('SET', P .. 'b:' .. string.format('%d', ref), long) end
    if attempts ~= '' then call('HSET', P .. 'a:' .. page, index, attempts) end
    total('p', topic, 1)
    if state == 'x' then
      detach(topic, ref, 'd')
      call('ZADD', P .. 'x:' .. topic, at, ref)
      count('nx', topic, 1)
      total('k', topic, 1)
    end
  end
  out[#out + 1] = ref
end
finish()
return out
