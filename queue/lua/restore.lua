#!lua
-- Stores jobs that a shard has forgotten, as they were: with the time of their creation.
-- KEYS[1] the bucket's prefix.
-- ARGV    six a job: topic; locator (11 bytes); record; the body again when it is long and has a key of its own, else ''; when it died, in ms,
--         or 0; attempts of one that died, as in a:PAGE.
-- Returns how many were stored: those whose id lives are passed over.
-- Keeps   invariants 1 to 4. No flag: a full Redis refuses the whole script.
local n = 0
for i = 1, #ARGV, 6 do
  local topic, rec, long, died, attempts = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local at, field = struct.unpack('>I3c8', ARGV[i + 1])
  local key = P .. 'i:' .. string.format('%d', at)
  local due, _, flags = decode(rec)
  if call('HEXISTS', key, field) == 0 then
    -- One that died is stored among the near, and taken out of there at once.
    local ref = store(topic, flags % 4, died == '0' and due or now + 60000, rec, due)
    local page, index = placeOf(ref)
    call('HSET', key, field, string.format('%d', ref))
    if long ~= '' then call('SET', P .. 'b:' .. string.format('%d', ref), long) end
    total('p', topic, 1)
    if died ~= '0' then
      detach(topic, ref, 'd')
      call('HSET', P .. 'a:' .. page, index, attempts)
      call('ZADD', P .. 'x:' .. topic, died, ref)
      count('nx', topic, 1)
      total('k', topic, 1)
    end
    n = n + 1
  end
end
finish()
return n
