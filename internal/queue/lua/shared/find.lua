-- Finds jobs by their ids, and describes them.

-- Whether a record has a nonce in place of the id: the job's id names its place, and there is no locator (see
-- placed.go).
local function isNonce(id)
  if #id ~= 5 then return false end
  local first = string.byte(id)
  return first >= 128 and first < 192
end

-- Whether a record without a decoded rest has a newer format: a damaged one may look the same, but no locator leads to
-- it.
local function isNewer(topic, ref, flags, id)
  if not flags then return false end
  if isNonce(id) then return true end
  local n, field = locator(topic, id)
  return call('HGET', smallHash(n, field), field) == string.format('%d', ref)
end

-- The job at a place (page, index and nonce): its reference, page, index and record, or nil.
local function findPlace(topic, place)
  local page, index, nonce = struct.unpack('>I6I2c5', place)
  local rec = read(page, index)
  if not rec then return nil end
  local _, _, flags, have = decode(rec)
  if have ~= nonce or topicOf(page) ~= topic then return nil end
  return (page * PAGE + index) * 4 + flags % 4, page, index, rec
end

-- The job of (topic, id): its reference, page, index and record; nil when there is none, followed by 'collision' when
-- another id has the locator. The address is the locator (11 bytes), and the place if the id may name one: a caller may
-- have chosen such an id.
local function find(topic, address, id)
  if #address > 11 then
    local ref, page, index, rec = findPlace(topic, string.sub(address, 12))
    if ref then return ref, page, index, rec end
  end
  local n, field = struct.unpack('>I3c8', address)
  local ref = call('HGET', smallHash(n, field), field)
  if not ref then return nil end
  ref = tonumber(ref)
  if ref < 0 then return nil end -- a finished job's
  local page, index = placeOf(ref)
  local rec = read(page, index)
  if not rec then return nil end
  local _, _, _, have = decode(rec)
  if have ~= id or topicOf(page) ~= topic then return nil, 'collision' end
  return ref, page, index, rec
end

-- Whether a job has one of the etags, separated by spaces ('' any); etagOf in job.go makes them.
local function matches(etags, topic, ref, page, index, rec)
  if etags == '' then return true end
  local state, at = stateOf(topic, ref, page, (decode(rec)))
  if state == 'f' then state = 'd' end
  local attempts = call('HGET', P .. 'a:' .. page, index) or ''
  local text = string.format('%d %s %d ', ref, state, state == 'd' and at or 0) .. attempts .. rec
  return string.find(etags, string.sub(redis.sha1hex(text), 1, 16), 1, true) ~= nil
end

-- The description of a job that described in job.go decodes: reference, state, its time, record, body key's value,
-- attempts. whole: with its long body.
local function describe(topic, ref, page, index, rec, whole)
  local due, _, flags = decode(rec)
  local state, at = stateOf(topic, ref, page, due)
  local attempts = call('HGET', P .. 'a:' .. page, index)
  local body = whole and flags and hasBodyKey(flags) and call('GET', P .. 'b:' .. ref)
  return {ref, state, at or 0, rec, body or '', attempts or ''}
end
