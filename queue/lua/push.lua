#!lua
-- Stores jobs, PAGE - 1 at most.
-- KEYS[1] the bucket's prefix.
-- ARGV    receipt and token, or '' and '' when no id may be made; then for each run of jobs of one topic: topic, how many, and each of them, behind one
--         with flag 4 its body, which gets a key of its own. A job is mode (bits 0-1: keep, replace, refuse; bit 2: the time is an instant, otherwise
--         a delay; bit 3: an id may be made; bit 4: the caller's id names a place), time in ms (6 bytes), locator (3 bytes which small hash, 8 bytes
--         field), the place (13 bytes, see find) or the id that it has when none is made (26 bytes), flags, id length, id or nonce, extras and body.
-- Returns {now, note, then the jobs that were not just stored: number from 1, answer}. note says where jobs were stored under ids that name their places:
--         '' or creation (6 bytes), and for each its number (2) and reference (7). An answer, when the id lived already, is {kind, description}, kind
--         'k' kept, 'e' refused; 'p' when the job that lived was replaced; 'c' when another id has the same hash.
-- Keeps   invariants 1 to 4. No flag: a full Redis refuses the whole script before it has written anything.
--
-- First the records are sorted by their pages, then each page is written at once, and then every job gets what leads to it, in the order of
-- the call: the HSETNX of a locator for an id of a caller's. A record whose id lived already is taken back at the end.
--
-- The call may come twice, when its first answer is lost. A job with a locator is found by that then. Where those without one were stored is
-- noted under the receipt (w:RECEIPT): token and note. So is that there were none, when one was near that will not be near for the second time.
local format, sub, unpackStruct, packStruct = string.format, string.sub, struct.unpack, struct.pack
local receipt, token = ARGV[1], ARGV[2]
local TAILS = {[0] = 19, [8] = 45, [16] = 32} -- where flags, id, extras and body begin, by the mode's bits 3 and 4
local MADE = 26

local earlier, numbers -- the note of a first time that this call came, and which jobs it tells of
local noted = receipt ~= '' and call('GET', P .. 'w:' .. receipt)
if noted and sub(noted, 1, #token + 1) == token .. ' ' then
  earlier, numbers = sub(noted, #token + 2), {}
  for at = 7, #earlier, 9 do numbers[unpackStruct('>I2', earlier, at)] = true end
end

-- A group is what goes to one page: its topic and slot (false: near), the records, how many of them were kept, and, once it is written, what is to be added
-- to a record's number among them for its reference: times four, since references count so, and from the record after fits on for the next page.
local groups, groupOf = {}, {}

local function write(g)
  local field = g.slot and g.topic .. '/' .. format('%d', g.slot) or g.topic
  local page, records = call('HGET', P .. 'cur', field), g.records
  while #records > 0 do
    local n, length = #records, 0
    if page then
      length = call('RPUSH', pageKey(page), unpack(records))
    else
      page = format('%d', call('INCR', P .. 'seq'))
      length = call('RPUSH', pageKey(page), g.topic, unpack(records))
      call('HSET', P .. 'cur', field, page)
      if g.slot then call('ZADD', P .. 'pg:' .. g.topic, g.slot, page) end
    end
    local base = (page * PAGE + length - n - 1) * 4
    if g.base then g.nextBase = base - g.fits * 4 else g.base = base end
    records = {}
    if length >= PAGE then
      if length > PAGE then
        records = call('RPOP', pageKey(page), length - PAGE)
        for k = 1, floor(#records / 2) do records[k], records[#records + 1 - k] = records[#records + 1 - k], records[k] end
        g.fits = n - #records
      end
      call('HDEL', P .. 'cur', field)
      page = false
    end
  end
end

local nears = {} -- topic → times and references

local function writeNears()
  for topic, times in pairs(nears) do many('ZADD', P .. 'd:' .. topic, times) end
  nears = {}
end

local function takeBack(topic, page, index)
  local key = pageKey(page)
  if call('LLEN', key) > index + 1 then
    call('LSET', key, index, '')
    return gone(topic, page, 1)
  end
  call('RPOP', key)
  gone(topic, page, 0)
end

-- What is done about an id that has a locator, or names the place of a job: the answer, and whether the job is stored all the same.
local function decide(topic, address, id, mode)
  local ref, page, index, rec = find(topic, address, id)
  if page == 'collision' then return 'c', false end
  if not ref then return nil, true end
  mode = mode % 4
  if mode ~= 1 then return {mode == 0 and 'k' or 'e', describe(topic, ref, page, index, rec, true)}, false end
  remove(topic, ref, page, index, rec)
  total('y', topic, 1)
  return 'p', true
end

-- By the jobs' numbers; those that the note of a first time tells of have no group. A kind is mode's bits 3 and 4, but 0 for a job that might have had an
-- id made and gets none.
local args, bodies, modes, kinds, dues, group, number = {}, {}, {}, {}, {}, {}, {}
local jobs, at = 0, 3
local moves = false -- whether one that may be made is near now and not a little later
while at < #ARGV do
  local topic, size = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  local slots = groupOf[topic]
  if not slots then slots = {}; groupOf[topic] = slots end
  for _ = 1, size do
    local arg = ARGV[at]
    local mode, due = unpackStruct('>BI6', arg)
    local kind = mode - mode % 8
    local tail = TAILS[kind]
    local flags = string.byte(arg, tail)
    jobs, at = jobs + 1, at + 1
    if hasBodyKey(flags) then
      bodies[jobs] = ARGV[at]
      at = at + 1
    end
    if mode % 8 < 4 then due = now + due end
    if not (numbers and numbers[jobs]) then
      local slot = due - due % SLOT
      if slot - LEAD <= now then slot = 0 end
      local record
      if kind ~= 8 or slot ~= 0 and not earlier then
        record = packStruct('>I6I6c0', due, now, sub(arg, tail))
      else -- near; or it came before and is not noted, so it has a locator
        moves = moves or mode < 12 and due > now + LEAD
        kind = 0
        record = packStruct('>I6I6BBc0', due, now, flags, MADE, sub(arg, 19, 44) .. sub(arg, tail + 7))
      end
      local g = slots[slot]
      if not g then
        g = {topic = topic, slot = slot ~= 0 and slot, records = {}, n = 0, stored = 0, fits = PAGE}
        slots[slot] = g
        groups[#groups + 1] = g
      end
      local n = g.n + 1
      g.n, g.records[n] = n, record
      args[jobs], modes[jobs], kinds[jobs], dues[jobs], group[jobs], number[jobs] = arg, mode, kind, due, g, n
    end
  end
end

for _, g in ipairs(groups) do write(g) end

local out, named, taken = {now, ''}, {}, {}
for i = 1, jobs do
  local g, arg, due = group[i], args[i], dues[i]
  if g then
    local topic, kind = g.topic, kinds[i]
    local tail = TAILS[modes[i] - modes[i] % 8]
    local priority = string.byte(arg, tail) % 4
    local ref = (number[i] <= g.fits and g.base or g.nextBase) + number[i] * 4 + priority
    local text = kind ~= 8 and format('%d', ref)
    local stored = true
    if kind == 8 then
      named[#named + 1] = packStruct('>I2I7', i, ref)
    else
      local n, field = unpackStruct('>I3c8', arg, 8)
      if kind == 16 and findPlace(topic, sub(arg, 19, 31)) or call('HSETNX', P .. 'i:' .. format('%d', n), field, text) == 0 then
        writeNears()
        local id = modes[i] % 16 >= 8 and sub(arg, 19, 44) or sub(arg, tail + 2, tail + 1 + string.byte(arg, tail + 1))
        local answer
        answer, stored = decide(topic, sub(arg, 8, kind == 16 and 31 or 18), id, modes[i])
        if answer then out[#out + 1], out[#out + 2] = i, answer end
        if stored then
          call('HSET', P .. 'i:' .. format('%d', n), field, text)
        else
          taken[#taken + 1] = {topic, placeOf(ref)}
        end
      end
    end
    if stored then
      g.stored = g.stored + 1
      if bodies[i] then call('SET', P .. 'b:' .. (text or format('%d', ref)), bodies[i]) end
      if due <= now then
        ready(topic, priority, text)
        g.ready = (g.ready or 0) + 1
      elseif not g.slot then
        local times = nears[topic]
        if not times then times = {}; nears[topic] = times end
        times[#times + 1], times[#times + 2] = format('%d', due), text
        event(topic, due)
      end
    end
  end
end
writeNears()
for i = #taken, 1, -1 do takeBack(unpack(taken[i])) end
for _, g in ipairs(groups) do
  if g.stored > 0 then
    total('p', g.topic, g.stored)
    count('nd', g.topic, g.stored - (g.ready or 0))
    if g.slot then event(g.topic, g.slot - LEAD) end
  end
end
if earlier then
  out[2] = earlier
elseif #named > 0 or moves then -- for a day: the pusher may ask for it as late as that
  out[2] = packStruct('>I6', now) .. table.concat(named)
  call('SET', P .. 'w:' .. receipt, token .. ' ' .. out[2], 'EX', 86400)
end
finish()
return out
