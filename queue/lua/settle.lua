#!lua flags=allow-oom
-- Ends leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many jobs, their refs, then for each run of them that have token, page, verdict and endpoint in common: token, page, its topic, verdict
--         (D done, K done with attempts or a body key to remove, R retry, S snooze, B bury, L release, E expire), endpoint (0 not called, 1 up, 2 down),
--         how many, and three of each job: its index; D and K: the key of the small hash, and the locator;
--         L: '' and '', the others: delay in ms and attempts to keep; at last how many splits the keys of small hashes go by.
-- Returns {the numbers, from 1, of those whose lease was not held any more, among them a ref's second time; splits; revision of
--         the first of those that died, in the order of the call}. Such a one changes nothing, so
--         a repeated call is harmless.
-- Keeps   invariants 1 to 4; all tokens are compared before anything is written.
--
-- What is done for each job is kept to its commands, and these take their arguments as they came: making text of a number takes as long as a
-- short command.
local pcall = redis.pcall
local HEAD = 6 -- arguments that begin a run
local jobs = tonumber(ARGV[1])
local held = call('HMGET', P .. 'tok', unpack(ARGV, 2, jobs + 1))
knowSplits(call('HGET', P .. 'cur', '/'))
local other = splits ~= tonumber(ARGV[#ARGV]) -- than the keys go by

-- Calls f for each run with the numbers of its first and last job and where it begins in ARGV.
local function eachRun(f)
  local first, at = 1, jobs + 2
  while first <= jobs do
    local size = tonumber(ARGV[at + 5])
    f(first, first + size - 1, at)
    first, at = first + size, at + HEAD + 3 * size
  end
end

local lost = {}
local function lose(k)
  held[k] = false
  lost[#lost + 1] = k
end

eachRun(function(first, last, at)
  local token = ARGV[at]
  for k = first, last do
    if held[k] ~= token then lose(k) end
  end
end)
if #lost == jobs then return {lost, splits, 0} end

local drop, from, to = ARGV, 2, jobs + 1
if #lost > 0 then
  drop, from = {}, 1
  for k = 1, jobs do
    if held[k] then drop[#drop + 1] = ARGV[k + 1] end
  end
  to = #drop
end
call('ZREM', P .. 'lease', unpack(drop, from, to))
if call('HDEL', P .. 'tok', unpack(drop, from, to)) <= to - from then -- one came twice
  local seen = {}
  for k = 1, jobs do
    local ref = ARGV[k + 1]
    if held[k] then
      if seen[ref] then lose(k) end
      seen[ref] = true
    end
  end
end

-- What becomes of a run's jobs, n of which were held: the numbers of the first and the last, and where their own arguments begin.
local freed, highest = {}, {} -- by page: how many, and the highest index of them
local function done(topic, page, n, first, last, at, verdict)
  local key, index, small, field = pageKey(page), nil, nil, nil
  for k = first, last do
    if held[k] then
      index, small = ARGV[at], ARGV[at + 1]
      pcall('LSET', key, index, '')
      field = string.sub(ARGV[at + 2], 4)
      call('HDEL', other and smallHash(struct.unpack('>I3', ARGV[at + 2]), field) or small, field)
      if verdict == 'K' then
        call('UNLINK', P .. 'b:' .. ARGV[k + 1])
        call('HDEL', P .. 'a:' .. page, index)
      end
    end
    at = at + 3
  end
  freed[page], highest[page] = (freed[page] or 0) + n, math.max(highest[page] or 0, tonumber(index))
  total('d', topic, n)
end

local function release(topic, _, n, first, last)
  for k = first, last do
    if held[k] then
      local ref = ARGV[k + 1]
      local key = P .. 'r:' .. ref % 4 .. ':' .. topic
      if call('LPUSH', key, ref) == 1 then call('RPUSH', P .. 'q:' .. ref % 4, topic) end
    end
  end
  wakeDispatchers = true
  count('nr', topic, n)
end

local deaths = 0
local function fail(topic, page, n, first, last, at, verdict)
  local again = verdict == 'R' or verdict == 'S'
  for k = first, last do
    if held[k] then
      local ref, time = ARGV[k + 1], now + ARGV[at + 1]
      call('HSET', P .. 'a:' .. page, ARGV[at], ARGV[at + 2])
      if again then
        call('ZADD', P .. 'd:' .. topic, time, ref)
        event(topic, time)
      else
        call('ZADD', P .. 'x:' .. topic, now, ref)
      end
    end
    at = at + 3
  end
  count(again and 'nd' or 'nx', topic, n)
  if not again then
    total('k', topic, n)
    deaths = deaths + n
  end
  if verdict == 'E' then return total('e', topic, n) end
  total(verdict == 'S' and 'z' or 'f', topic, n)
  if verdict == 'R' then total('r', topic, n) end
end

local outcomes = {D = done, K = done, L = release, R = fail, S = fail, B = fail, E = fail}
local told = {}
eachRun(function(first, last, at)
  local page, topic, verdict, endpoint = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local n = 0
  topics[page] = topic -- asking the pages costs a command for each job where a call's jobs stand far apart
  for k = first, last do
    if held[k] then n = n + 1 end
  end
  if n == 0 then return end
  outcomes[verdict](topic, page, n, first, last, at + HEAD, verdict)
  count('nu', topic, -n)
  local t = told[topic]
  if not t then t = {['0'] = 0, ['1'] = 0, ['2'] = 0}; told[topic] = t end
  t[endpoint] = t[endpoint] + n
end)

-- How many of each page are gone, in two commands for all of them: a call's jobs may stand on as many pages as there are jobs.
local pages = {}
for page in pairs(freed) do pages[#pages + 1] = page end
if #pages > 0 then
  local before, totals = call('HMGET', P .. 'gone', unpack(pages)), {}
  for i, page in ipairs(pages) do
    local n = (before[i] or 0) + freed[page]
    totals[2 * i - 1], totals[2 * i], freed[page] = page, n, n
  end
  call('HSET', P .. 'gone', unpack(totals))
  for page, n in pairs(freed) do -- a page has more jobs than its highest index says, so mostly that says enough
    if n >= highest[page] and n >= call('LLEN', pageKey(page)) - 1 then dropPage(topicOf(page), page) end
  end
end

-- What the calls told about the endpoint. It answered: the window grows while it is used, the breaker closes. It did not: the
-- window halves, and after ten in a row the breaker opens, for a second, two, four … up to a minute between probes.
for topic, t in pairs(told) do
  local key = P .. 'f:' .. topic
  local f = call('HMGET', key, 'w', 'k', 'o', 'b', 'g')
  local window, fails, open, pause = tonumber(f[1] or WINDOW), tonumber(f[2] or 0), tonumber(f[3] or 0), tonumber(f[4] or 0)
  local running = tonumber(call('HGET', P .. 'nu', topic) or 0)
  local up, down = t['1'], t['2']
  if up > 0 then
    if open > 0 then
      window = WINDOW
    elseif running >= window / 2 then
      window = math.min(window + up, 1000000)
    end
    if fails > 0 or open > 0 then call('HSET', key, 'k', 0, 'o', 0, 'b', 0) end
    if window ~= tonumber(f[1]) then call('HSET', key, 'w', window) end
  elseif down > 0 then
    fails = fails + down
    window = math.max(4, floor(window / 2))
    if open > 0 then
      if running - down <= 0 and now >= open then
        pause = math.min(pause * 2, 60000)
        open = now + pause
      end
    elseif fails >= 10 then
      pause = 1000
      open = now + pause
    end
    call('HSET', key, 'w', window, 'k', fails, 'o', open, 'b', pause)
  end
  if f[5] then
    call('HDEL', key, 'g')
    unpark(topic)
  end
end
finish()
return {lost, splits, deaths > 0 and revise(deaths) or 0}
