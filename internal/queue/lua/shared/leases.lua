-- Code that takes ready jobs under leases: reserve.lua for dispatchers, take.lua for workers. Only these two have it.
local byte = string.byte
local PRIORITIES = {'0', '1', '2'} -- as text: they are parts of keys
local out, size = {now}, 1         -- the answer; answer() appends to it from size on
local token, endOf                 -- the token of new leases, and by TTR when one ends, as text
local leases, tokens = {}, {}      -- of taken jobs: lease ends and references, references and tokens
local reservation, taken = {}, 0
local wanted                       -- how many jobs the caller asks for

local pages, answered = {}, {} -- the pages of answered jobs, and by page their positions in the answer and indexes

-- Adds the attempts of the jobs to the answer; most have had none.
local function answerAttempts()
  for page in pairs(having('a:', pages)) do
    local jobs = answered[page]
    for i = 1, #jobs, 2 do out[jobs[i]] = call('HGET', P .. 'a:' .. page, jobs[i + 1]) or '' end
  end
end

local function answer(ref, topic, page, index, rec, flags, expiry)
  out[size + 1], out[size + 2], out[size + 3], out[size + 4] = topic, tonumber(expiry), ref, rec
  out[size + 5] = hasBodyKey(flags) and call('GET', P .. 'b:' .. ref) or ''
  out[size + 6] = ''
  size = size + 6
  local jobs = answered[page]
  if not jobs then
    jobs = {}
    answered[page], pages[#pages + 1] = jobs, page
  end
  jobs[#jobs + 1], jobs[#jobs + 2] = size, index
end

-- Answers a job again that an earlier call took under a token, if its lease is still held.
local function answerAgain(ref, under)
  if call('HGET', P .. 'tok', ref) ~= under then return false end
  local page, index = placeOf(ref)
  local rec = read(page, index)
  local _, _, flags = decode(rec or '')
  if not flags then return false end
  answer(ref, topicOf(page), page, index, rec, flags, call('ZSCORE', P .. 'lease', ref))
  return true
end

-- Makes a job dead whose record is damaged.
local function setAside(topic, ref, page, index)
  count('nr', topic, -1)
  call('ZADD', P .. 'x:' .. topic, now, ref)
  writeAttempts(page, index, 0, 0, 'corrupt', '[]')
  count('nx', topic, 1)
  total('k', topic, 1)
end

-- Leases a job. usual is when a lease with the topic's TTR ends.
local function lease(topic, ref, page, index, rec, usual)
  local flags, length = byte(rec, 13, 14)
  if not length or #rec < 14 + length or flags >= FLAGS then
    setAside(topic, ref, page, index)
    return false
  end
  if flags >= 32 then
    local expires = expiryOf(rec, flags, 15 + length)
    if expires > 0 and expires <= now then
      expire(topic, ref, page, index, rec)
      return false
    end
  end
  local expiry = flags < 8 and usual or endOf(own(rec, flags, 15 + length) or confOf(topic).ttr)
  leases[2 * taken + 1], leases[2 * taken + 2] = expiry, ref
  tokens[2 * taken + 1], tokens[2 * taken + 2] = ref, token
  taken = taken + 1
  reservation[#reservation + 1] = ref
  answer(ref, topic, page, index, rec, flags, expiry)
  return true
end

-- Leases those of a topic's jobs that still exist, and returns how many.
local function leaseAll(topic, list)
  local usual, got = endOf(confOf(topic).ttr), 0
  readAll(list, function(i, page, index, rec)
    if rec and rec ~= '' and lease(topic, list[i], page, index, rec, usual) then got = got + 1 end
  end)
  return got
end

-- Takes up to n jobs of a topic and priority. Returns how many, and whether its list is known to be empty. The number
-- of places read is bounded for each priority, since many may be empty.
local visited = {['0'] = 0, ['1'] = 0, ['2'] = 0}
local function mayRead(p) return visited[p] < 2 * wanted + 50 end
local function take(topic, p, n)
  local got, over = 0, false
  local key = P .. 'r:' .. p .. ':' .. topic
  while got < n and mayRead(p) and not over do
    local popped = call('LPOP', key, n - got) or {}
    over = #popped < n - got
    visited[p] = visited[p] + #popped
    got = got + leaseAll(topic, popped)
  end
  if got > 0 then
    count('nr', topic, -got)
    count('nu', topic, got)
  end
  return got, over
end

-- Limits a gate by its topic's rate, with GCRA: room is how many jobs may be taken now, paced whether the rate bounds
-- it.
local function pace(g, rate, tat)
  local every = 1000 / rate
  local burst = every >= 50 and 0 or 50
  if tat > now + burst + every + 1000 then tat = now end -- the rate was lower, or the clock ahead, when tat was stored
  g.every, g.burst, g.tat = every, burst, math.max(tat, now)
  local left = floor((now + burst - g.tat) / every + 1 + 1e-9)
  if left <= g.room then g.room, g.paced = left, true end
end

-- When the rate of a gate allows the next job.
local function pacedUntil(g) return math.max(now + 1, math.ceil(g.tat + g.taken * g.every - g.burst)) end

local function tatOf(g) return g.tat and string.format('%.3f', g.tat + g.taken * g.every) or '0' end

-- The pattern says how many jobs each priority gets; the share that one cannot use goes to the others, again by the
-- pattern. A priority that is known to have no jobs is left out from the beginning.
local start, pos
local order, weight, empty = {}, {['0'] = 0, ['1'] = 0, ['2'] = 0}, {}

local function readPattern(pattern)
  start = tonumber(call('GET', P .. 'pos') or 0)
  pos = start
  for i = 1, #pattern do
    local p = string.sub(pattern, i, i)
    order[i], weight[p] = p, weight[p] + 1
  end
end

-- How many of the next n jobs each priority gets that is not empty; nil when all are empty.
local function shares(n)
  local share, round = {}, 0
  for p, w in pairs(weight) do
    if not empty[p] then round = round + w end
  end
  if round == 0 then return nil end
  local rounds = floor(n / round)
  for p, w in pairs(weight) do share[p] = empty[p] and 0 or rounds * w end
  n = n - rounds * round
  while n > 0 do
    local p = order[pos % #order + 1]
    pos = pos + 1
    if not empty[p] then share[p], n = share[p] + 1, n - 1 end
  end
  return share
end

-- Takes up to n jobs by the pattern, with fetch(priority, how many), and returns how many it took.
local function byPattern(n, fetch)
  local left = n
  while left > 0 do
    local share = shares(left)
    if not share then break end
    for _, p in ipairs(PRIORITIES) do
      local ask = share[p]
      local got = ask > 0 and fetch(p, ask) or 0
      if got < ask then empty[p] = true end
      left = left - got
    end
  end
  return n - left
end

-- Writes the leases, and stores the reservation under a name for a repeated call.
local function writeLeases(name)
  if taken == 0 then return end
  for i = 1, 2 * taken, 1000 do call('ZADD', P .. 'lease', unpack(leases, i, math.min(i + 999, 2 * taken))) end
  tokens[2 * taken + 1], tokens[2 * taken + 2] = '', TABLE
  many('HSET', P .. 'tok', tokens)
  call('SET', P .. 'pos', (start + taken) % #order)
  call('SET', P .. 'v:' .. name, table.concat(reservation, ' '), 'EX', 120)
end
