-- Small hashes i:N map a locator to a job's reference. Redis searches a small hash from its first field on, so when
-- they get long each is split into PARTS, one after the other by their numbers, and again when these get long: linear
-- hashing (Litwin, VLDB 1980). A round ends when LOCATORS are split; splits goes on counting. A hash that was split in
-- this round consists of parts * PARTS hashes, i:N, i:N/1 and so on, by the field's first byte; the others consist of
-- parts. advance.lua splits them.
local function knowSplits(count)
  splits = tonumber(count or 0)
  turn = splits % LOCATORS
  parts = PARTS ^ ((splits - turn) / LOCATORS)
end

local function partKey(n, part)
  return P .. 'i:' .. string.format('%d', n) .. (part > 0 and '/' .. part or '')
end

-- The key of the small hash that has a field of locator number n.
local function smallHash(n, field)
  if not splits then knowSplits(call('HGET', P .. 'cur', '/')) end
  return partKey(n, string.byte(field) % (n < turn and parts * PARTS or parts))
end

-- The number of the small hash and the field for the reference of (topic, id), as locate in record.go computes them.
local function locator(topic, id)
  local h = redis.sha1hex(topic .. '\0' .. id)
  local field = struct.pack('>I4I4', tonumber(string.sub(h, 7, 14), 16), tonumber(string.sub(h, 15, 22), 16))
  return tonumber(string.sub(h, 1, 6), 16) % LOCATORS, field
end
