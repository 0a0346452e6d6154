#!lua flags=no-writes
-- Lists the jobs of a topic in one state, a step at a time.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, state (done: remembered finished jobs, the last first), cursor ('' at the beginning), limit,
--         prefix of the ids of finished jobs.
-- Returns {now, next cursor ('' at the end), descriptions …}, fewer than limit if a step has read enough; without
--         bodies that have keys of their own.
-- Keeps   all invariants: it reads.
local topic, state, cursor, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local out = {now, ''}

local function add(ref, page, index, rec)
  out[#out + 1] = describe(topic, ref, page, index, rec, false)
end

-- Lists a sorted set of references, after the last one in the cursor; a step reads limit members.
local function set(key, tag, mine)
  local score, last = string.match(cursor, '^%a:([^:]*):(.*)$')
  local from = 0
  if last then
    local rank = call('ZRANK', key, last)
    from = rank and rank + 1 or call('ZCOUNT', key, '-inf', '(' .. score)
  end
  local found = call('ZRANGE', key, from, from + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local page, index = placeOf(found[i])
    local rec = (not mine or topicOf(page) == topic) and read(page, index)
    if rec then add(tonumber(found[i]), page, index, rec) end
  end
  if #found < 2 * limit then return false end
  out[2] = tag .. ':' .. found[#found] .. ':' .. found[#found - 1]
  return true
end

-- Lists the unopened pages, minute by minute.
local function pages()
  local slot, last, index = string.match(cursor, '^f:([^:]*):(%d+):(%d+)$')
  local key = P .. 'pg:' .. topic
  local rank, from = 0, 1
  if last then
    local r = call('ZRANK', key, last)
    if r then
      rank, from = r, tonumber(index) + 1
    else
      rank = call('ZCOUNT', key, '-inf', '(' .. slot)
    end
  end
  local page = call('ZRANGE', key, rank, rank, 'WITHSCORES')
  if #page == 0 then return end
  local entries = call('LRANGE', P .. 'p:' .. page[1], from, from + limit - 1)
  for i, rec in ipairs(entries) do
    if rec ~= '' then
      local at = from + i - 1
      add((page[1] * PAGE + at) * 4 + priorityOf(rec), tonumber(page[1]), at, rec)
    end
  end
  if #entries == limit then
    out[2] = 'f:' .. page[2] .. ':' .. page[1] .. ':' .. (from + limit - 1)
    return
  end
  local following = call('ZRANGE', key, rank + 1, rank + 1, 'WITHSCORES')
  if #following > 0 then out[2] = 'f:' .. following[2] .. ':' .. following[1] .. ':0' end
end

-- Lists the ready lists, by position, which shifts when jobs are reserved meanwhile, so a step may miss some.
local function lists()
  local p, from = string.match(cursor, '^r:(%d):(%d+)$')
  p, from = tonumber(p or 0), tonumber(from or 0)
  local refs = call('LRANGE', P .. 'r:' .. p .. ':' .. topic, from, from + limit - 1)
  for _, ref in ipairs(refs) do
    local page, index = placeOf(ref)
    local rec = read(page, index)
    if rec then add(tonumber(ref), page, index, rec) end
  end
  if #refs == limit then
    out[2] = 'r:' .. p .. ':' .. (from + limit)
  elseif p < 2 then
    out[2] = 'r:' .. (p + 1) .. ':0'
  end
end

-- Lists the finished jobs: those in pages, then the others.
local function finished()
  local prefix, keep = ARGV[5], confOf(topic).keep
  if keep == 0 then return end
  local page, last = string.match(cursor, '^o:(%d+):(%d+)$') -- page 0: the list of the last ones
  page = page or call('LINDEX', P .. 'og:' .. topic, -1) or '0'
  local key, first = P .. 'op:' .. page, 1
  if page == '0' then key, first = P .. 'o:' .. topic, 0 end
  last = math.min(tonumber(last or PAGE), call('LLEN', key)) - 1
  local from = math.max(first, last - (prefix == '' and limit or PAGE) + 1)
  local entries = last >= from and call('LRANGE', key, from, last) or {}
  for i = #entries, 1, -1 do
    local id, at = idOf(entries[i])
    if string.sub(id, 1, #prefix) == prefix and isRemembered(keep, at) then
      out[#out + 1] = describeFinished(entries[i])
      if #out == limit + 2 then from = from + i - 1; break end
    end
  end
  if from > first and last >= from then
    out[2] = 'o:' .. page .. ':' .. string.format('%d', from)
  elseif page ~= '0' then
    local rank = call('LPOS', P .. 'og:' .. topic, page)
    page = rank and rank > 0 and call('LINDEX', P .. 'og:' .. topic, rank - 1) or '0'
    out[2] = 'o:' .. page .. ':' .. PAGE
  end
end

if state == 'done' then
  finished()
elseif state == 'delayed' then
  if string.sub(cursor, 1, 1) == 'f' then
    pages()
  elseif not set(P .. 'd:' .. topic, 'd') and call('EXISTS', P .. 'pg:' .. topic) == 1 then
    out[2] = 'f:-inf:0:0'
  end
elseif state == 'ready' then
  lists()
elseif state == 'running' then
  set(P .. 'lease', 'u', true)
else
  set(P .. 'x:' .. topic, 'x')
end
return out
