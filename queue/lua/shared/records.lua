-- Records, and the places that references name.
local function placeOf(ref)
  local q = floor(ref / 4)
  local index = q % PAGE
  return (q - index) / PAGE, index
end

local function topicOf(page)
  local t = topics[page]
  if t == nil then
    t = call('LINDEX', P .. 'p:' .. page, 0)
    topics[page] = t
  end
  return t
end

-- The key of a page. To make text of a number is slow.
local function pageKey(page)
  local key = pageKeys[page]
  if not key then
    key = P .. 'p:' .. page
    pageKeys[page] = key
  end
  return key
end

-- The record at a place, or nil when the job is gone.
local function read(page, index)
  local rec = call('LINDEX', pageKey(page), index)
  if rec == false or rec == '' then return nil end
  return rec
end

-- Calls visit with the number of each of the references, its page, its index and the record there: nil or '' when the
-- job is gone. Of jobs that are beside each other on a page the records are read at once; the first place of a page has
-- none, so a run does not reach into the next page.
local function readAll(refs, visit)
  local from = 1
  while from <= #refs do
    local page, index = placeOf(refs[from])
    local to = from
    while to < #refs and refs[to + 1] - refs[to] == 4 do to = to + 1 end
    local recs = to > from and call('LRANGE', pageKey(page), index, index + to - from) or {read(page, index)}
    for i = from, to do visit(i, page, index + i - from, recs[i - from + 1]) end
    from = to + 1
  end
end

-- Of a record: due, created, flags, id and where the rest begins; nil when it cannot be decoded. This is the gate to
-- newer formats (flags from NEWER on): only so much is the same in all formats. There is no rest of a newer one, and
-- who needs it leaves the job.
local function decode(rec)
  if #rec < 14 then return nil end
  local due, created, flags, n, at = struct.unpack('>I6I6BB', rec)
  if #rec < 14 + n then return nil end
  return due, created, flags, string.sub(rec, at, at + n - 1), flags < NEWER and at + n or nil
end

-- The priority of a record, by which its reference ends; 0 of one that is damaged.
local function priorityOf(rec) return (string.byte(rec, 13) or 0) % 4 % 3 end

local function hasBodyKey(flags) return flags % 8 >= 4 end

-- Where the extras of a record begin: two bytes of how long they are; when the job expires, in ms (6 bytes, 0: never);
-- how many waits between attempts it has of its own, and each in ms (4 bytes); its headers, as Go reads them. nil when
-- it has none.
local function extrasAt(rec, flags, at)
  if not at or flags % 64 < 32 then return nil end
  if flags % 16 >= 8 then at = at + 6 end
  if flags % 32 >= 16 then at = at + 1 + (string.byte(rec, at) or 0) end
  return #rec >= at + 8 and at or nil
end

-- When a job expires, in ms; 0: never.
local function expiryOf(rec, flags, at)
  local extras = extrasAt(rec, flags, at)
  return extras and struct.unpack('>I6', rec, extras + 2) or 0
end

-- The TTR in ms and the attempts that a job has of its own; nil where its topic's count, or the record is cut off
-- there.
local function own(rec, flags, at)
  if not at or flags % 16 < 8 or #rec < at + 5 then return nil, nil end
  local ttr, max = struct.unpack('>I4I2', rec, at)
  if ttr == 0 then ttr = nil end
  if max == 0 then max = nil end
  return ttr, max
end
