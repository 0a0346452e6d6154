-- Topics with an order of their own: the numbers in the pair order of their jobs, beanstalkd's priorities. o:TOPIC has
-- the jobs with that pair that are in w: the due ones by their number, and equal ones by their ids, the others by the
-- microsecond of their due time. The field order of c:TOPIC says that a topic has such jobs: others cost nothing.
local LAST = 4294967295 -- the largest number; due times are larger

-- A job's member in o. Ids that are numbers of up to 20 digits sort by number, and before other ids.
local function seat(id)
  local number = #id <= 20 and string.find(id, '^%d+$')
  return (number and string.rep('0', 20 - #id) .. id or string.rep('9', 20)) .. id
end

local function leaveOrder(topic, id) call('ZREM', P .. 'o:' .. topic, seat(id)) end

-- Adds a job of w to o if it has an order; at is the microsecond from which it may be called. Returns whether it has.
local function order(topic, id, job, at)
  local number = get(job, 'order')
  if not number then return false end
  local s = settings(topic)
  if not s.order then
    call('HSET', P .. 'c:' .. topic, 'order', 1)
    s.order = 1
  end
  call('ZADD', P .. 'o:' .. topic, at <= DUE and number or at, seat(id))
  return true
end

-- Moves up to n jobs of a topic that have fallen due to their number. Returns how many.
local function orderDue(topic, n)
  local o, ids = P .. 'o:' .. topic, {}
  local found, entries = call('ZRANGE', o, '(' .. LAST, text(DUE), 'BYSCORE', 'LIMIT', 0, n), {}
  if #found == 0 then return 0 end
  for i, member in ipairs(found) do ids[i] = string.sub(member, 21) end
  for i, record in ipairs(call('HMGET', P .. 'j:' .. topic, unpack(ids))) do
    local job = parse(record)
    entries[2 * i - 1], entries[2 * i] = job and get(job, 'order') or 0, found[i] -- a damaged one is set aside at once
  end
  call('ZADD', o, unpack(entries))
  return #found
end

local ORDERED = 500 -- jobs that fall due just now and get their place before others are taken; wake.lua does the rest
-- Takes up to n due jobs of a topic with an order of its own out of w, the first in that order.
local function takeInOrder(topic, n)
  orderDue(topic, ORDERED)
  local ids = call('ZRANGE', P .. 'o:' .. topic, '-inf', LAST, 'BYSCORE', 'LIMIT', 0, n)
  if #ids == 0 then return ids end
  for i, member in ipairs(ids) do ids[i] = string.sub(member, 21) end
  for _, priority in ipairs(PRIORITIES) do call('ZREM', P .. 'w:' .. priority .. ':' .. topic, unpack(ids)) end
  return ids
end
