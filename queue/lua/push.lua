#!lua
-- Stores jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    four a job: topic; locator (3 bytes which small hash, 8 bytes field), mode (bits 0-1: keep, replace, refuse;
--         bit 2: the time is an instant, otherwise a delay) and time in ms (6 bytes); flags, id length, id, extras and
--         body; the body again when it is long and has a key of its own (flag 4), else ''.
-- Returns {now, one of these for each job}: the due time in ms when it was stored; {kind, description} when the id lived
--         already, kind 'k' kept, 'p' replaced (followed by the new due time), 'e' refused; 'c' when another id has the same hash.
-- Keeps   invariants 1 to 4. No flag: a full Redis refuses the whole script before it has written anything.
--
-- A new id costs the HSETNX of its locator; the records, near times and counts are gathered and written once a page and topic, except that
-- the first record of each page goes at once, since RPUSH tells the index of the next. Whatever has to look at stored jobs writes what was
-- gathered first: it may be about a job of this very call.
local format, unpackStruct, packStruct = string.format, struct.unpack, struct.pack
local out = {now}

local groups = {} -- field of cur → a page that takes records: its number, the next index, whether cur names it, records not yet written
local nears = {}  -- topic → times and references

local function write(field, g)
  if #g.records > 0 then many('RPUSH', pageKey(g.page), g.records) end
  g.records = {}
  if g.at >= PAGE then
    if g.known then call('HDEL', P .. 'cur', field) end
    groups[field] = nil
  elseif not g.known then
    call('HSET', P .. 'cur', field, g.page)
    g.known = true
  end
end

local function writeAll()
  for field, g in pairs(groups) do write(field, g) end
  for topic, times in pairs(nears) do many('ZADD', P .. 'd:' .. topic, times) end
  nears = {}
end

-- Puts a record on the page of its topic and slot (false: near); returns the page and the record's index.
local function append(topic, slot, record)
  local field = slot and topic .. '/' .. slot or topic
  local g = groups[field]
  if g then
    g.records[#g.records + 1] = record
  else
    local page = call('HGET', P .. 'cur', field)
    g = {known = page, page = page or call('INCR', P .. 'seq'), records = {}}
    groups[field] = g
    if page then
      g.at = call('RPUSH', pageKey(page), record) - 1
    else
      g.at = call('RPUSH', P .. 'p:' .. g.page, topic, record) - 1
      if slot then call('ZADD', P .. 'pg:' .. topic, slot, g.page) end
    end
  end
  local index = g.at
  g.at = index + 1
  if g.at >= PAGE then write(field, g) end
  return g.page, index
end

-- Takes back the record that was written last to a page, and the page when there is nothing else on it.
local function takeBack(topic, slot, page)
  call('RPOP', P .. 'p:' .. page)
  if call('LLEN', P .. 'p:' .. page) > 1 then return end
  call('DEL', P .. 'p:' .. page)
  call('HDEL', P .. 'cur', slot and topic .. '/' .. slot or topic)
  if slot then call('ZREM', P .. 'pg:' .. topic, page) end
end

-- What is done about an id that has a locator: the answer, and whether the job is to be stored all the same.
local function decide(topic, n, field, tail, mode, due)
  local ref, page, index, rec = find(topic, n, field, string.sub(tail, 3, 2 + string.byte(tail, 2)))
  if page == 'collision' then return 'c', false end
  if not ref then return due, true end
  if mode ~= 1 then return {mode == 0 and 'k' or 'e', describe(topic, ref, page, index, rec, true)}, false end
  remove(topic, ref, page, index, rec)
  total('y', topic, 1)
  return {'p', due}, true
end

for i = 1, #ARGV, 4 do
  local topic, head, tail, long = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local n, field, mode, due = unpackStruct('>I3c8BI6', head)
  if mode < 4 then due = now + due else mode = mode - 4 end
  local priority = string.byte(tail) % 4
  local slot = due - due % SLOT
  if slot - LEAD <= now then slot = false end
  local key = P .. 'i:' .. format('%d', n)
  local record = packStruct('>I6I6', due, now) .. tail
  local page, index = append(topic, slot, record)
  local ref = format('%d', (page * PAGE + index) * 4 + priority)
  local answer, stored = due, true
  if call('HSETNX', key, field, ref) == 0 then
    writeAll()
    groups = {}
    takeBack(topic, slot, page)
    answer, stored = decide(topic, n, field, tail, mode, due)
    if stored then
      page, index = append(topic, slot, record)
      ref = format('%d', (page * PAGE + index) * 4 + priority)
      call('HSET', key, field, ref)
    end
  end
  if stored then
    total('p', topic, 1)
    if long ~= '' then call('SET', P .. 'b:' .. ref, long) end
    if due <= now then
      ready(topic, priority, ref)
    else
      count('nd', topic, 1)
      event(topic, slot and slot - LEAD or due)
      if not slot then
        local times = nears[topic]
        if not times then times = {}; nears[topic] = times end
        times[#times + 1], times[#times + 2] = format('%d', due), ref
      end
    end
  end
  out[#out + 1] = answer
end
writeAll()
finish()
return out
