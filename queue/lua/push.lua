#!lua
-- Stores jobs, PAGE - 1 at most.
-- KEYS[1] the bucket's prefix.
-- ARGV    receipt and token, or '' and '' when no id may be made; how many splits the keys of small hashes go by; then for each run of jobs of one topic: topic, how many, and each of them, behind one
--         with flag 4 its body, which gets a key of its own. A job is mode (bits 0-1: keep, replace, refuse; bit 2: the time is an instant, otherwise
--         a delay; bit 3: an id may be made; bit 4: the caller's id names a place), time in ms (6 bytes), locator (length of the small hash's
--         key, key, 8 bytes field), the place (13 bytes, see find) or the id that it has when none is made (26 bytes), flags, id length, id or nonce,
--         extras and body.
-- Returns {now, note, splits, then the jobs that were not just stored: number from 1, answer}. note says where jobs were stored under ids that name their places:
--         '' or creation (6 bytes), and for each its number (2) and reference (7). An answer, when the id lived already, is {kind, description}, kind
--         'k' kept, 'e' refused; 'p' when the job that lived was replaced; 'c' when another id has the same hash.
-- Keeps   invariants 1 to 4. No flag: a full Redis refuses the whole script before it has written anything.
--
-- First the records are sorted by their pages, then each page is written at once, and then every job gets what leads to it, in the order of
-- the call: the HSETNX of a locator for an id of a caller's. A record whose id lived already is taken back at the end. What is done for each job
-- and page is kept to few texts and tables: each text is looked up among all that Lua has, and each table is thrown away after the call.
--
-- The call may come twice, when its first answer is lost. A job with a locator is found by that then. Where those without one were stored is
-- noted under the receipt (w:RECEIPT): token and note. So is that there were none, when one was near that will not be near for the second time.
local ARGV, format, sub, byte, unpackStruct, packStruct = ARGV, string.format, string.sub, string.byte, struct.unpack, struct.pack
local receipt, token = ARGV[1], ARGV[2]
local TAILS = {[0] = 17, [8] = 43, [16] = 30} -- where flags, id, extras and body begin, by the mode's bits 3 and 4, and the key's length further on
local MADE, PLACE = 26, 13
local CREATED = packStruct('>I6', now)

local earlier, numbers -- the note of a first time that this call came, and which jobs it tells of
local noted = receipt ~= '' and call('GET', P .. 'w:' .. receipt)
if noted and sub(noted, 1, #token + 1) == token .. ' ' then
  earlier, numbers = sub(noted, #token + 2), {}
  for at = 7, #earlier, 9 do numbers[unpackStruct('>I2', earlier, at)] = true end
end

-- A group is what goes to one page. By its number: its topic and slot (0: near), where cur has its page, its records, how many of them were kept, and,
-- once it is written, what is to be added to a record's code for its reference. A code is the record's number in its group, times four since
-- references count so, and the job's priority. Where a page is full, codes past a limit have another base.
local groups, groupOf = 0, {}
local groupTopic, slots, fields, records, sizes, bases, nextBases, limits = {}, {}, {}, {}, {}, {}, {}, {}

-- Appends the records of a group to its page, and those that it has no room for to a new one.
local function write(g, page)
  local topic, field, left, fits = groupTopic[g], fields[g], records[g], 0
  while true do
    local n, length = #left, 0
    if page then
      length = call('RPUSH', P .. 'p:' .. page, unpack(left))
    else
      page = format('%d', call('INCR', P .. 'seq'))
      length = call('RPUSH', P .. 'p:' .. page, topic, unpack(left))
      call('HSET', P .. 'cur', field, page, '', TABLE)
      if slots[g] ~= 0 then call('ZADD', P .. 'pg:' .. topic, slots[g], page) end
    end
    local base = (page * PAGE + length - n - 1 - fits) * 4
    if bases[g] then nextBases[g] = base else bases[g] = base end
    if length >= PAGE then call('HDEL', P .. 'cur', field) end
    local over = length - PAGE
    if over <= 0 then return end
    left = call('RPOP', P .. 'p:' .. page, over)
    for k = 1, floor(over / 2) do left[k], left[over + 1 - k] = left[over + 1 - k], left[k] end
    fits, page = n - over, false
    limits[g] = fits * 4 + 3
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

-- By the jobs' numbers. Those that the note of a first time tells of have no group, those that get no locator no args, and only near ones dues.
local args, bodies, dues, group, codes = {}, {}, {}, {}, {}
local jobs, at, last, nearest = 0, 4, #ARGV, now + LEAD
local moves = false -- whether one that may be made is near now and not a little later
while at < last do
  local topic, size = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  local bySlot = groupOf[topic]
  if not bySlot then bySlot = {}; groupOf[topic] = bySlot end
  for i = jobs + 1, jobs + size do
    local arg = ARGV[at]
    local mode, due, length = unpackStruct('>BI6B', arg)
    local kind = mode - mode % 8
    local tail = TAILS[kind] + length
    local flags = byte(arg, tail)
    at = at + 1
    if hasBodyKey(flags) then
      bodies[i] = ARGV[at]
      at = at + 1
    end
    if mode % 8 < 4 then due = now + due end
    if not (numbers and numbers[i]) then
      local slot = due - due % SLOT
      if slot <= nearest then
        slot = 0
        dues[i] = due
      end
      local record
      if kind ~= 8 or slot ~= 0 and not earlier then
        record = packStruct('>I6', due) .. CREATED .. sub(arg, tail)
        if kind ~= 8 then args[i] = arg end
      else -- near; or it came before and is not noted, so it has a locator
        moves = moves or mode < 12 and due > nearest
        record = packStruct('>I6I6BBc0', due, now, flags, MADE, sub(arg, tail - MADE, tail - 1) .. sub(arg, tail + 7))
        args[i] = arg
      end
      local g, n = bySlot[slot], 1
      if g then
        n = sizes[g] + 1
        records[g][n] = record
      else
        g = groups + 1
        groups, bySlot[slot] = g, g
        groupTopic[g], slots[g], records[g] = topic, slot, {record}
        fields[g] = slot ~= 0 and topic .. '/' .. format('%d', slot) or topic
      end
      sizes[g], group[i], codes[i] = n, g, n * 4 + flags % 4
    end
  end
  jobs = jobs + size
end

if groups > 0 then
  local pages = call('HMGET', P .. 'cur', '/', unpack(fields))
  knowSplits(pages[1])
  for g = 1, groups do write(g, pages[g + 1]) end
end

local known = tonumber(ARGV[3])
local out, named, taken, readied = {now, '', splits or known}, {}, {}, {}
local other = out[3] ~= known -- splits than the keys go by

-- What remains to be done when a locator is taken, or an id names a place: says whether the job is stored all the same.
local function locate(i, g, ref, text, mode, key, field)
  local arg, topic = args[i], groupTopic[g]
  local tail = TAILS[mode - mode % 8] + byte(arg, 8)
  local place = mode >= 16 and sub(arg, tail - PLACE, tail - 1) or ''
  if mode >= 16 and not findPlace(topic, place) and call('HSETNX', key, field, text) == 1 then return true end
  writeNears()
  local id = mode % 16 >= 8 and sub(arg, tail - MADE, tail - 1) or sub(arg, tail + 2, tail + 1 + byte(arg, tail + 1))
  local address = packStruct('>I3', tonumber(string.match(key, '%d+', #P + 1))) .. field .. place
  local answer, stored = decide(topic, address, id, mode)
  if answer then out[#out + 1], out[#out + 2] = i, answer end
  if stored then
    call('HSET', key, field, text)
  else
    taken[#taken + 1] = {topic, placeOf(ref)}
    sizes[g] = sizes[g] - 1
  end
  return stored
end

-- Puts a near job where its time says.
local function arrive(i, g, ref, text)
  local due, topic = dues[i], groupTopic[g]
  if due <= now then
    ready(topic, ref % 4, text)
    readied[g] = (readied[g] or 0) + 1
    return
  end
  local times = nears[topic]
  if not times then times = {}; nears[topic] = times end
  times[#times + 1], times[#times + 2] = format('%d', due), text
  event(topic, due)
end

for i = 1, jobs do
  local g = group[i]
  if g then
    local code, next = codes[i], nextBases[g]
    local ref = (next and code > limits[g] and next or bases[g]) + code
    local arg, stored, text = args[i], true, nil
    if arg then
      text = format('%d', ref)
      local mode, key, field = byte(arg), unpackStruct('>Bc0c8', arg, 8)
      if other then key = smallHash(key, field) end
      stored = mode < 16 and call('HSETNX', key, field, text) == 1 or locate(i, g, ref, text, mode, key, field)
    else
      named[#named + 1] = packStruct('>I2I7', i, ref)
    end
    if stored then
      if bodies[i] then call('SET', P .. 'b:' .. (text or format('%d', ref)), bodies[i]) end
      if dues[i] then arrive(i, g, ref, text) end
    end
  end
end
writeNears()
for i = #taken, 1, -1 do takeBack(unpack(taken[i])) end
for g = 1, groups do
  if sizes[g] > 0 then
    total('p', groupTopic[g], sizes[g])
    count('nd', groupTopic[g], sizes[g] - (readied[g] or 0))
    if slots[g] ~= 0 then event(groupTopic[g], slots[g] - LEAD) end
  end
end
if earlier then
  out[2] = earlier
elseif #named > 0 or moves then -- for a day: the pusher may ask for it as late as that
  out[2] = CREATED .. table.concat(named)
  call('SET', P .. 'w:' .. receipt, token .. ' ' .. out[2], 'EX', 86400)
end
finish()
return out
