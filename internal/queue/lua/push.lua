#!lua
-- Stores jobs, PAGE - 1 at most.
-- KEYS[1] the bucket's prefix.
-- ARGV    the number of splits for which the keys of small hashes were made; the number of runs of jobs of one topic,
--         and for each its topic and length; then each job, followed by its body if that gets a key of its own (flag
--         4). A job is mode (bits 0-1: what to do when the id exists, bit 2: the time is an instant, not a delay, bit
--         3: its expiry is a time to live, bit 4: finished jobs do not count), time in ms (6 bytes), key of the small
--         hash (after one byte of length), address (see find), and its record from the flags on.
-- Returns {now, splits, revision of the first job, then for each job whose id existed: its number from 1, answer}. The
--         answer is 'replaced', 'collision' (another id has the same locator), or {'kept' or 'refused', description,
--         revision of the reservation under which the job is running, 0 if it is not}.
-- Keeps   invariants 1 to 5. No flag: a full Redis refuses the whole script before it has written anything. The same
--         call again finds the jobs that it stored by their ids.
--
-- First the records are sorted by their pages, then each page is written at once, and then every job gets its locator,
-- in the order of the call. A record whose id existed is removed at the end. The work for each job makes few strings
-- and tables: Lua interns each string, and collects each table.
local ARGV, format, sub, byte = ARGV, string.format, string.sub, string.byte
local unpackStruct, packStruct = struct.unpack, struct.pack
local REPLACE, INSTANT, TTL, AGAIN = 1, 4, 8, 16
local ANSWERS = {[0] = 'kept', [2] = 'refused'} -- by the lowest bits of the mode
local CREATED = packStruct('>I6', now)

-- The position of a job's flags.
local function tailOf(keyLength) return 20 + keyLength end

-- A record with its time to live replaced by the instant of expiry.
local function living(record)
  local _, _, flags, _, at = decode(record)
  local extras = extrasAt(record, flags, at)
  if not extras then return record end
  local expiry = packStruct('>I6', now + expiryOf(record, flags, at))
  return sub(record, 1, extras + 1) .. expiry .. sub(record, extras + 8)
end

-- A group is the records for one page. Stored by its number: its topic and slot (0: near), the field of cur that has
-- its page, its records, how many of them are stored, and, once it is written, the base to add to a record's code to
-- get its reference. A code is the record's number in its group times four, as in references, plus the job's priority.
-- Where a page gets full, codes past a limit have another base.
local groups, groupOf = 0, {}
local groupTopic, slots, fields, records, sizes, readied = {}, {}, {}, {}, {}, {}
local thin = {} -- of topics: false, true, or the number of their group
local bases, nextBases, limits = {}, {}, {}

-- Indexed by the jobs' numbers. Only jobs with a body key have bodies, and only near ones dues.
local args, bodies, dues, group, codes = {}, {}, {}, {}, {}
local jobs = 0

local function addToGroup(i, topic, bySlot, slot, record, priority)
  local lone = not bySlot and thin[topic]
  local g, n = lone ~= true and (lone or bySlot[slot]), 1
  if g then
    n = sizes[g] + 1
    records[g][n] = record
  else
    g = groups + 1
    groups = g
    if lone then thin[topic] = g else bySlot[slot] = g end
    groupTopic[g], slots[g], records[g], readied[g] = topic, slot, {record}, 0
    fields[g] = slot ~= 0 and topic .. '/' .. format('%d', slot) or topic
  end
  sizes[g], group[i], codes[i] = n, g, n * 4 + priority
end

local function findThin(runs)
  local names, sizes = {}, {}
  for i = 3, 2 * runs + 2, 2 do
    local topic = ARGV[i]
    if not sizes[topic] then names[#names + 1] = topic end
    sizes[topic] = (sizes[topic] or 0) + ARGV[i + 1]
  end
  know(names)
  for _, topic in ipairs(names) do
    thin[topic] = isThin(topic, sizes[topic])
    if not thin[topic] then groupOf[topic] = {} end
  end
end

local function sortIntoGroups()
  local runs, nearest = tonumber(ARGV[2]), now + LEAD
  local at = 2 * runs + 3
  findThin(runs)
  for run = 3, 2 * runs + 2, 2 do
    local topic, size = ARGV[run], ARGV[run + 1]
    local bySlot = groupOf[topic] -- nil: the topic is thin
    local latest = bySlot and nearest or math.huge
    for i = jobs + 1, jobs + size do
      local arg = ARGV[at]
      local mode, due, keyLength = unpackStruct('>BI6B', arg)
      local tail = tailOf(keyLength)
      local flags = byte(arg, tail)
      args[i], at = arg, at + 1
      if hasBodyKey(flags) then bodies[i], at = ARGV[at], at + 1 end
      if mode % TTL < INSTANT then due = now + due end
      local slot = due - due % SLOT
      if slot <= latest then slot, dues[i] = 0, due end
      local record = packStruct('>I6', due) .. CREATED .. sub(arg, tail)
      if mode % AGAIN >= TTL then record = living(record) end
      if flags % 64 >= 32 then noteExpiry(topic, expiryOf(record, flags, 15 + byte(record, 14))) end
      addToGroup(i, topic, bySlot, slot, record, flags % 4)
    end
    jobs = jobs + size
  end
end

local spare, fresh = 0, 0 -- page numbers that are taken and not used: how many, and the last of them
local function newPage()
  if spare == 0 then spare, fresh = 1, call('INCR', P .. 'seq') end
  spare = spare - 1
  return format('%d', fresh - spare)
end

local current, filled = {}, {} -- for cur: fields and new pages; fields whose pages are full

-- Appends the records of a group to its page, and those that do not fit to a new one.
local function write(g, page)
  local topic, field, left, fits = groupTopic[g], fields[g], records[g], 0
  while true do
    local n, length, new = #left, 0, not page
    if new then
      page = newPage()
      length = call('RPUSH', P .. 'p:' .. page, topic, unpack(left))
      if slots[g] ~= 0 then call('ZADD', P .. 'pg:' .. topic, slots[g], page) end
    else
      length = call('RPUSH', P .. 'p:' .. page, unpack(left))
    end
    local base = (page * PAGE + length - n - 1 - fits) * 4
    if bases[g] then nextBases[g] = base else bases[g] = base end
    local over = length - PAGE
    if over < 0 then
      if new then current[#current + 1], current[#current + 2] = field, page end
      return
    end
    filled[#filled + 1] = field
    if over == 0 then return end
    left = call('RPOP', P .. 'p:' .. page, over)
    for k = 1, floor(over / 2) do left[k], left[over + 1 - k] = left[over + 1 - k], left[k] end
    fits, page = n - over, false
    limits[g] = fits * 4 + 3
  end
end

local function writeAll(pages)
  for g = 1, groups do
    if not pages[g + 1] then spare = spare + 1 end
  end
  if spare > 0 then fresh = call('INCRBY', P .. 'seq', spare) end
  for g = 1, groups do write(g, pages[g + 1]) end
  many('HDEL', P .. 'cur', filled)
  if #current == 0 then return end
  current[#current + 1], current[#current + 2] = '', TABLE
  many('HSET', P .. 'cur', current)
end

local nears = {} -- topic → times and references

local function writeNears()
  for topic, times in pairs(nears) do many('ZADD', P .. 'd:' .. topic, times) end
  nears = {}
end

-- Makes a near job delayed or ready, by its time.
local function arrive(i, g, ref, text)
  local due, topic = dues[i], groupTopic[g]
  if due <= now then
    ready(topic, ref % 4, text)
    readied[g] = readied[g] + 1
    return
  end
  event(topic, due)
  if sizes[g] == 1 then return call('ZADD', P .. 'd:' .. topic, format('%d', due), text) end
  local times = nears[topic]
  if not times then times = {}; nears[topic] = times end
  times[#times + 1], times[#times + 2] = format('%d', due), text
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

-- Answers a push whose id exists, or whose locator belongs to another id. Returns whether its job is stored.
local out, taken = {now}, {}
local function duplicate(i, topic, mode, address, id)
  writeNears() -- the job may be from this call
  local ref, page, index, rec = find(topic, address, id)
  local answer = 'collision'
  if not ref and page ~= 'collision' then
    local f = mode < AGAIN and mode % 4 ~= REPLACE and confOf(topic).keep > 0 and recall(topic, address, id)
    if not f then return true end
    out[#out + 1], out[#out + 2] = i, {ANSWERS[mode % 4], describeFinished(f), 0}
    return false
  end
  if ref and mode % 4 == REPLACE then
    remove(topic, ref, page, index, rec)
    total('y', topic, 1)
    answer = 'replaced'
  elseif ref then
    answer = {ANSWERS[mode % 4], describe(topic, ref, page, index, rec, true), reservationOf(ref)}
  end
  out[#out + 1], out[#out + 2] = i, answer
  return answer == 'replaced'
end

-- Sets a job's locator, unless its id exists. Returns whether the job is stored.
local function locate(i, topic, text, other)
  local arg = args[i]
  local mode, key, n, field = byte(arg), unpackStruct('>Bc0I3c8', arg, 8)
  if other then key = smallHash(n, field) end
  if call('HSETNX', key, field, text) == 1 then return true end
  local keyLength = byte(arg, 8)
  local tail = tailOf(keyLength)
  local id = sub(arg, tail + 2, tail + 1 + byte(arg, tail + 1))
  if not duplicate(i, topic, mode, sub(arg, 9 + keyLength, tail - 1), id) then return false end
  call('HSET', key, field, text)
  return true
end

sortIntoGroups()
local pages = call('HMGET', P .. 'cur', '/', unpack(fields))
knowSplits(pages[1])
writeAll(pages)
out[2], out[3] = splits, revise(jobs)
local other = splits ~= tonumber(ARGV[1])
for i = 1, jobs do
  local g, code = group[i], codes[i]
  local next = nextBases[g]
  local ref = (next and code > limits[g] and next or bases[g]) + code
  local text = format('%d', ref)
  if locate(i, groupTopic[g], text, other) then
    if bodies[i] then call('SET', P .. 'b:' .. text, bodies[i]) end
    if dues[i] then arrive(i, g, ref, text) end
  else
    taken[#taken + 1] = {groupTopic[g], placeOf(ref)}
    sizes[g] = sizes[g] - 1
  end
end
writeNears()
for i = #taken, 1, -1 do takeBack(unpack(taken[i])) end
for g = 1, groups do
  if sizes[g] > 0 then
    total('p', groupTopic[g], sizes[g])
    count('nd', groupTopic[g], sizes[g] - readied[g])
    if slots[g] ~= 0 then event(groupTopic[g], slots[g] - LEAD) end
  end
end
finish()
return out
