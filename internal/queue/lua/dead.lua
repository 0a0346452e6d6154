#!lua flags=allow-oom
-- Redrives dead jobs, with attempts 0 and due now, or deletes them.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, 'retry' or 'delete', limit (of the oldest; 0 with ids), attempts and time to live in ms for redriven
--         jobs ('' unchanged; an expiry is removed), then pairs (address (see find), id).
-- Returns {revision of the first, then for each its id, creation in ms, and if redriven its description, else ''}.
-- Keeps   invariants 1 to 5. Ids of jobs that are not dead are skipped.
local topic, what, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local max, ttl = ARGV[4], ARGV[5]
local dead = P .. 'x:' .. topic
local refs = {}
if limit > 0 then
  refs = call('ZRANGE', dead, 0, limit - 1)
else
  for i = 6, #ARGV, 2 do refs[#refs + 1] = find(topic, ARGV[i], ARGV[i + 1]) end
end

-- A record with other attempts and another expiry.
local function renewed(rec)
  local _, _, flags, id, at = decode(rec)
  if not at or max == '' and ttl == '' then return rec end
  local ttr, attempts = own(rec, flags, at)
  local limits = struct.pack('>I4I2', ttr or 0, max ~= '' and tonumber(max) or attempts or 0)
  if flags % 16 >= 8 then at = at + 6 end
  local kind = flags % 32 >= 16 and string.sub(rec, at, at + string.byte(rec, at)) or ''
  at = at + #kind
  local more = struct.pack('>I6B', 0, 0)
  if flags >= 32 then
    local n = struct.unpack('>I2', rec, at)
    more = struct.pack('>I6', 0) .. string.sub(rec, at + 8, at + 1 + n)
    at = at + 2 + n
  end
  if ttl ~= '' and ttl ~= '0' then more = struct.pack('>I6', now + ttl) .. string.sub(more, 7) end
  flags = flags % 8 + 8 + flags % 32 - flags % 16 + 32
  return string.sub(rec, 1, 12) .. string.char(flags, #id) .. id .. limits .. kind
    .. struct.pack('>I2', #more) .. more .. string.sub(rec, at)
end

local out = {0}
for _, ref in ipairs(refs) do
  ref = tonumber(ref)
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec then
    call('ZREM', dead, ref)
  elseif call('ZSCORE', dead, ref) then -- not true for an id's second time in the call
    local due, created, _, id = decode(rec)
    local n = #out
    out[n + 1], out[n + 2], out[n + 3] = id or '', created or 0, ''
    if what == 'delete' or not due then
      remove(topic, ref, page, index, rec)
      total('o', topic, 1)
    else
      detach(topic, ref, 'x')
      restartAttempts(page, index)
      makeDue(topic, ref, page, index, renewed(rec))
      if ttl == '' then liftExpiry(page, index) elseif ttl ~= '0' then noteExpiry(topic, now + ttl) end
      out[n + 3] = describe(topic, ref, page, index, read(page, index), true)
      total('v', topic, 1)
    end
  end
end
if #out > 1 then out[1] = revise((#out - 1) / 3) end
finish()
return out
