#!lua
-- Stores jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    receipt and token, or '' and '' when no id may be made; then four a job: topic; locator (3 bytes which small hash, 8 bytes field), mode
--         (bits 0-1: keep, replace, refuse; bit 2: the time is an instant, otherwise a delay; bit 3: an id may be made) and time in ms (6 bytes), and
--         behind that the nonce (5 bytes) for an id that may be made, or the place that a caller's id names (see find); flags, id length, id, extras
--         and body; the body again when it is long and has a key of its own (flag 4), else ''.
-- Returns {now, one of these for each job}: the due time in ms when it was stored; {'n', due time, reference, creation} when it was stored under an
--         id that names its place; {kind, description} when the id lived already, kind 'k' kept, 'p' replaced (followed by the new due time), 'e'
--         refused; 'c' when another id has the same hash.
-- Keeps   invariants 1 to 4. No flag: a full Redis refuses the whole script before it has written anything.
--
-- A new id of a caller's costs the HSETNX of its locator; the records, near times and counts are gathered and written once a page and topic, except that
-- the first record of each page goes at once, since RPUSH tells the index of the next. Whatever has to look at stored jobs writes what was
-- gathered first: it may be about a job of this very call.
--
-- The call may come twice, when its first answer is lost. A job with a locator is found by that then. Where those without one were stored is
-- noted under the receipt (w:RECEIPT): token, creation (6 bytes), and for each its position in ARGV (2), reference (7) and due time (6).
local format, unpackStruct, packStruct = string.format, struct.unpack, struct.pack
local out = {now}
local receipt, token = ARGV[1], ARGV[2]

local earlier -- by position, of a first time that this call came
local note = receipt ~= '' and call('GET', P .. 'w:' .. receipt)
if note and string.sub(note, 1, #token + 1) == token .. ' ' then
  earlier = {}
  local created = unpackStruct('>I6', note, #token + 2)
  for at = #token + 8, #note, 15 do
    local i, ref, due = unpackStruct('>I2I7I6', note, at)
    earlier[i] = {'n', due, ref, created}
  end
end

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

-- What is done about an id that has a locator, or names the place of a job: the answer, and whether the job is to be stored all the same.
local function decide(topic, address, tail, mode, due)
  local ref, page, index, rec = find(topic, address, string.sub(tail, 3, 2 + string.byte(tail, 2)))
  if page == 'collision' then return 'c', false end
  if not ref then return due, true end
  if mode ~= 1 then return {mode == 0 and 'k' or 'e', describe(topic, ref, page, index, rec, true)}, false end
  remove(topic, ref, page, index, rec)
  total('y', topic, 1)
  return {'p', due}, true
end

local named = {} -- for the receipt

for i = 3, #ARGV, 4 do
  local topic, head, tail, long = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local n, field, mode, due = unpackStruct('>I3c8BI6', head)
  local place, nonce = '', nil
  if mode >= 8 then
    mode = mode - 8
    if not earlier then nonce = string.sub(head, 19) end -- what came before and is not noted has a locator
  elseif #head > 18 then
    place = string.sub(head, 19)
  end
  if mode < 4 then due = now + due else mode = mode - 4 end
  local priority = string.byte(tail) % 4
  local slot = due - due % SLOT
  if slot - LEAD <= now then slot, nonce = false, nil end
  local answer, stored = earlier and earlier[i], false
  if not answer then
    local record = packStruct('>I6I6', due, now)
    if nonce then
      record = record .. string.sub(tail, 1, 1) .. string.char(#nonce) .. nonce .. string.sub(tail, 3 + string.byte(tail, 2))
    else
      record = record .. tail
    end
    local lives = place ~= '' and findPlace(topic, place)
    local page, index, ref
    if not lives then
      page, index = append(topic, slot, record)
      ref = format('%d', (page * PAGE + index) * 4 + priority)
    end
    answer, stored = due, true
    if nonce then
      local number = (page * PAGE + index) * 4 + priority
      answer = {'n', due, number, now}
      named[#named + 1] = packStruct('>I2I7I6', i, number, due)
    elseif lives or call('HSETNX', P .. 'i:' .. format('%d', n), field, ref) == 0 then
      writeAll()
      groups = {}
      if not lives then takeBack(topic, slot, page) end
      answer, stored = decide(topic, string.sub(head, 1, 11) .. place, tail, mode, due)
      if stored then
        page, index = append(topic, slot, record)
        ref = format('%d', (page * PAGE + index) * 4 + priority)
        call('HSET', P .. 'i:' .. format('%d', n), field, ref)
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
  end
  out[#out + 1] = answer
end
writeAll()
if #named > 0 then -- for a day: the pusher may ask for it as late as that
  call('SET', P .. 'w:' .. receipt, token .. ' ' .. packStruct('>I6', now) .. table.concat(named), 'EX', 86400)
end
finish()
return out
