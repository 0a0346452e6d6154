-- Finds jobs by their ids, and describes them.

-- The job of (topic, id): its reference, page, index and record; nil when there is none, followed by 'collision' when
-- another id has the locator. The address is the locator as record.go makes it: 11 bytes.
local function find(topic, address, id)
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
