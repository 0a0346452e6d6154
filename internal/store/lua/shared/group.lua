-- Groups of jobs, see the pair group. g:GROUP has the live jobs of a group in this bucket, as TOPIC/ID. x:GROUP has who
-- closed the group: topic patterns, separated by spaces → until when, in ms. closed has all of these, as GROUP
-- PATTERNS, by until when: a bucket that did not answer learns them from another one.

-- Whether one of the patterns has a topic: a pattern ends with * or is the name of a topic.
local function within(patterns, topic)
  for begin, open in string.gmatch(patterns, '([^%s*]*)(%*?)') do
    if topic == begin or open == '*' and string.sub(topic, 1, #begin) == begin then return true end
  end
  return false
end

-- Calls each for about n members of a group that belong to topics, from a cursor on ('0' the first): with the topic,
-- the id and the job, nil if the entry is out of date. Returns the next cursor, '0' at the end. Patterns are compared
-- once for each topic: a token may have hundreds.
local function visit(group, patterns, cursor, n, each)
  local page, wanted = call('HSCAN', P .. 'g:' .. group, cursor, 'COUNT', n), {}
  for i = 1, #page[2], 2 do
    local topic, id = string.match(page[2][i], '^([^/]*)/(.*)$')
    if wanted[topic] == nil then wanted[topic] = within(patterns, topic) end
    local job = wanted[topic] and find(topic, id)
    if job and (job.state == 'done' or get(job, 'group') ~= group) then job = nil end
    if wanted[topic] then each(topic, id, job) end
  end
  return page[1]
end

run.closed = {}
-- Whether a group is closed for jobs of a topic.
local function closed(group, topic)
  if not group then return false end
  run.closed[group] = run.closed[group] or call('HGETALL', P .. 'x:' .. group)
  local marks = run.closed[group]
  for i = 1, #marks, 2 do
    if tonumber(marks[i + 1]) > now and within(marks[i], topic) then return true end
  end
  return false
end

local function join(topic, id, job)
  local group = get(job, 'group')
  if group then call('HSET', P .. 'g:' .. group, topic .. '/' .. id, '') end
end

-- Lets a running job end: it is deleted instead of waiting again or dying, see settle.lua. Its token stays its last
-- pair. Returns false when a cancellation of this name has done that before.
local function cancelRunning(topic, id, job, name)
  if get(job, 'cancelled') == name then return false end
  local token = get(job, 'token')
  set(job, 'token', nil)
  set(job, 'cancelled', name)
  set(job, 'token', token)
  write(topic, id, job)
  return true
end

local function leaveGroup(topic, id, job)
  local group = get(job, 'group')
  if group then call('HDEL', P .. 'g:' .. group, topic .. '/' .. id) end
end

-- Closes a group for topics until a time. Returns until when it is closed.
local function close(group, patterns, ends)
  local key = P .. 'x:' .. group
  local have = tonumber(call('HGET', key, patterns) or 0)
  if have >= ends then return have end
  call('HSET', key, patterns, text(ends))
  call('ZREMRANGEBYSCORE', P .. 'closed', '-inf', now)
  call('ZADD', P .. 'closed', text(ends), group .. ' ' .. patterns)
  for _, k in ipairs({key, P .. 'closed'}) do
    if EXPIRING and call('PEXPIRETIME', k) < ends then call('PEXPIREAT', k, text(ends)) end
  end
  return ends
end

-- Cancelled groups whose jobs may come back from journals are in rv, too: *GROUP → {topic patterns → revision}.
local function cancellations(group) return cjson.decode(call('HGET', P .. 'rv', '*' .. group) or '{}') end

local function noteCancelled(group, patterns, revision)
  local all = cancellations(group)
  all[patterns] = math.max(revision, all[patterns] or 0)
  call('HSET', P .. 'rv', '*' .. group, cjson.encode(all))
end

-- Up to which revision the jobs of a topic in a group were deleted with it.
local function cancelledUpTo(group, topic)
  local most = 0
  for patterns, revision in pairs(group and cancellations(group) or {}) do
    if within(patterns, topic) then most = math.max(most, revision) end
  end
  return most
end
