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

-- The key of a page. Cached, since converting a number to text is slow.
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

-- Calls visit with each reference's number, page, index and record: nil or '' when the job is gone. Records of adjacent
-- jobs on a page are read at once; the first place of a page has no record, so a run cannot reach into the next page.
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

-- Decodes a record: due, created, flags, id and where the rest begins; nil when it is damaged.
local function decode(rec)
  if #rec < 14 then return nil end
  local due, created, flags, n, at = struct.unpack('>I6I6BB', rec)
  if #rec < 14 + n or flags >= FLAGS then return nil end
  return due, created, flags, string.sub(rec, at, at + n - 1), at + n
end

-- The priority of a record, part of its reference; 0 if the record is damaged.
local function priorityOf(rec) return (string.byte(rec, 13) or 0) % 4 % 3 end

local function hasBodyKey(flags) return flags % 8 >= 4 end

-- Where the extras of a record begin: their length (2 bytes); when the job expires, in ms (6 bytes, 0: never); the
-- number of its own waits between attempts, and each in ms (4 bytes); its headers, for Go. nil when it has none.
local function extrasAt(rec, flags, at)
  if not at or flags < 32 then return nil end
  if flags % 16 >= 8 then at = at + 6 end
  if flags % 32 >= 16 then at = at + 1 + (string.byte(rec, at) or 0) end
  return #rec >= at + 8 and at or nil
end

-- When a job expires, in ms; 0: never.
local function expiryOf(rec, flags, at)
  local extras = extrasAt(rec, flags, at)
  return extras and struct.unpack('>I6', rec, extras + 2) or 0
end

-- A job's own TTR in ms and attempts; nil where the topic's apply, or the record is truncated.
local function own(rec, flags, at)
  if not at or flags % 16 < 8 or #rec < at + 5 then return nil, nil end
  local ttr, max = struct.unpack('>I4I2', rec, at)
  if ttr == 0 then ttr = nil end
  if max == 0 then max = nil end
  return ttr, max
end
