#!lua flags=no-writes
-- With: record, describe.
-- Lists jobs of a topic in one state, a step at a time.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic; state (delayed, ready, running, dead or done); cursor ('' at first; last: one page, from the last
--         one); limit; beginning of the ids of finished jobs.
-- Returns {now in µs, next cursor ('' at the end), then descriptions without long bodies}: fewer than limit if the step
--         has read enough.
-- Keeps   it writes nothing.
local topic, state, cursor, limit, prefix = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local out = {micros, ''}

local seen = {} -- an id may be twice in the list of a minute; far apart, its job is listed twice
local function add(id, minute)
  if seen[id] then return end
  seen[id] = true
  if string.sub(id, 1, #prefix) ~= prefix then return end
  local job = find(topic, id)
  if minute and (not job or math.floor(nextOf(job) / 60000) ~= tonumber(minute)) then return end
  if job and job.state == (INDEX[state] and state or 'waiting') then out[#out + 1] = describe(topic, id, job, false) end
end

-- A cursor in sorted sets: a letter for the state, number of the set, score and member of the last one.
local TAGS = {delayed = 'd', ready = 'r', running = 'u', dead = 'x'}
local number, score, last = string.match(cursor, '^[drux](%d):([^:]*):(.*)$')
number = tonumber(number)

-- The rank in a set of the first member behind the cursor, or of a score. Members of one score are in the order of the
-- sets.
local function behind(i, key, from)
  local at = i == number and call('ZRANK', key, last)
  if at then return at + 1 end
  local upto = not number and '(' .. from or i < number and score or '(' .. score
  return call('ZCOUNT', key, '-inf', upto)
end

-- Lists sorted sets together, in the order of their scores. Returns whether there may be more.
local function sets(keys, from, to)
  local all = {}
  for i, key in ipairs(keys) do
    local rank = behind(i, key, from)
    local found = call('ZRANGE', key, rank, rank + limit - 1, 'WITHSCORES')
    for k = 1, #found, 2 do
      local member = {id = found[k], score = found[k + 1], set = i, at = #all}
      if tonumber(member.score) <= to then all[#all + 1] = member end
    end
  end
  table.sort(all, function(a, b)
    if a.score ~= b.score then return tonumber(a.score) < tonumber(b.score) end
    return a.at < b.at -- since the sort is not stable
  end)
  for i = 1, math.min(limit, #all) do add(all[i].id) end
  local final = all[limit]
  if final then out[2] = TAGS[state] .. final.set .. ':' .. final.score .. ':' .. final.id end
  return final
end

-- Lists the lists of minutes. A cursor is the minute and the position in its list.
local function minutes()
  local minute, from = string.match(cursor, '^f(%d+):(%d+)$')
  local page = call('ZRANGE', P .. 'm:' .. topic, minute or '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 2)
  if not page[1] then return end
  from = page[1] == minute and tonumber(from) or 0
  local ids = call('LRANGE', P .. 'f:' .. topic .. ':' .. page[1], from, from + limit - 1)
  for _, id in ipairs(ids) do add(id, page[1]) end
  if #ids == limit then
    out[2] = 'f' .. page[1] .. ':' .. from + limit
  elseif page[2] then
    out[2] = 'f' .. page[2] .. ':0'
  end
end

local STEP = 500
-- Lists the finished jobs, the last first, STEP at a time. A cursor is the score and the member of the last one.
local function finished()
  local key = P .. 'fin:' .. topic
  local at, id = string.match(cursor, '^o([^:]*):(.*)$')
  local rank = at and call('ZREVRANK', key, id)
  local from = rank and rank + 1 or at and call('ZCOUNT', key, at, '+inf') or 0
  local found = call('ZRANGE', key, from, from + STEP - 1, 'REV', 'WITHSCORES')
  for i = 1, #found, 2 do
    if #out == limit + 2 then return end
    add(found[i])
    out[2] = 'o' .. found[i + 1] .. ':' .. found[i]
  end
  if #found < 2 * STEP then out[2] = '' end
end

local w = {P .. 'w:high:' .. topic, P .. 'w:normal:' .. topic, P .. 'w:low:' .. topic, P .. 'h:' .. topic}
if state == 'done' then
  finished()
elseif cursor == 'last' then
  for _, id in ipairs(call('ZRANGE', P .. INDEX[state] .. topic, 0, limit - 1, 'REV')) do add(id) end
elseif state == 'ready' then
  sets(w, '-inf', DUE)
elseif state ~= 'delayed' then
  sets({P .. INDEX[state] .. topic}, '-inf', math.huge)
elseif string.sub(cursor, 1, 1) == 'f' then
  minutes()
elseif not sets(w, text(DUE + 1), math.huge) and call('EXISTS', P .. 'm:' .. topic) == 1 then
  out[2] = 'f0:0'
end
return out
