-- Admits the next jobs of keys, see key.lua: those with the lowest due time, and of equal ones with the lowest
-- revision.
local TIES, STEP = 100, 100 -- jobs of a key that are compared, and that are admitted in one run, at most
local LIVES = {waiting = true, running = true}

local function before(a, b)
  if math.floor(a.score / 1000) ~= math.floor(b.score / 1000) then return a.score < b.score end
  return tonumber(a.job.revision) < tonumber(b.job.revision)
end

-- Removes an entry of a key whose job has ended, is damaged, or has another key: the id is another job's.
local function dropEntry(topic, k, id, job)
  call('ZREM', k, id)
  if job and LIVES[job.state] then return end
  call('ZREM', P .. 'h:' .. topic, id)
  if job or call('HEXISTS', P .. 'j:' .. topic, id) == 0 then return end
  call('ZADD', P .. 'w:normal:' .. topic, micros, id) -- a damaged one: a reservation sets it aside
  event(topic, now)
end

-- Reads jobs of a key by their scores.
local function members(topic, key, k, from, to)
  local found, list = call('ZRANGE', k, from, to, 'BYSCORE', 'LIMIT', 0, TIES, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    local id, job = found[i], find(topic, found[i])
    if job and LIVES[job.state] and get(job, 'key') == key then
      list[#list + 1] = {id = id, job = job, score = math.abs(found[i + 1])}
    else
      dropEntry(topic, k, id, job)
    end
  end
  return list
end

local function firstHeld(topic, key, k)
  while true do
    local score = call('ZRANGE', k, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
    if not score then return nil end
    local first
    for _, one in ipairs(members(topic, key, k, score, text(math.floor(score / 1000) * 1000 + 999))) do
      if not first or before(one, first) then first = one end
    end
    if first then return first end
  end
end

-- Returns the last of the admitted jobs that waits for its call.
local function lastAdmitted(topic, key, k)
  local last
  for _, one in ipairs(members(topic, key, k, '-inf', '(0')) do
    if one.job.state == 'waiting' and (not last or before(last, one)) then last = one end
  end
  return last
end

local function admitNext(topic, key)
  local k, s = P .. 'k:' .. topic .. '/' .. key, settings(topic)
  local most = s.keyflight or math.huge
  local rests = s.keyrate and call('GET', P .. 'kt:' .. topic .. '/' .. key) or 0
  for _ = 1, STEP do
    local first = firstHeld(topic, key, k)
    if not first then return end
    if call('ZCOUNT', k, '-inf', '(0') >= most then
      local last = lastAdmitted(topic, key, k)
      if call('ZCOUNT', k, '-inf', '(0') >= most then
        if not last or not before(first, last) then return end
        call('ZREM', P .. 'w:' .. last.job.priority .. ':' .. topic, last.id)
        if get(last.job, 'order') then leaveOrder(topic, last.id) end
        call('ZADD', k, text(last.score), last.id)
        call('ZADD', P .. 'h:' .. topic, text(math.max(1000 * nextOf(last.job), last.score)), last.id)
      end
    end
    call('ZADD', k, text(-first.score), first.id)
    call('ZREM', P .. 'h:' .. topic, first.id)
    enqueue(topic, first.id, first.job, math.max(1000 * nextOf(first.job), first.score, 1000 * rests))
  end
end

function run.admit()
  for _, name in ipairs(run.keys) do admitNext(string.match(name, '^([^/]*)/(.*)$')) end
end
