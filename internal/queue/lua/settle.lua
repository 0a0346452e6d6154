#!lua flags=allow-oom
-- Ends leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    the number of splits for which the keys of small hashes were made; how many jobs; how many kinds, and for
--         each its token, topic, verdict and endpoint ('up', 'down' or ''); then seven for each job: the index of its
--         kind in ARGV, reference, page, index, and three more: for the verdicts D and K the key of the small hash, the
--         field in it, and the finished job to remember ('': none); for L ''; for the others the delay in ms and the
--         attempts to store. The verdicts are the keys of outcomes below.
-- Returns {the numbers, from 1, of jobs whose lease had ended, also of a job's second time in the call; splits;
--         revision of the first of those that died, in the order of the call}. An ended lease changes nothing, so a
--         repeated call is harmless.
-- Keeps   invariants 1 to 5; all tokens are compared before anything is written.
local ARGV, KIND, JOB = ARGV, 4, 7
local jobs, kinds = tonumber(ARGV[2]), 4
local first = kinds + KIND * ARGV[3]
local refs = {}
for k = 1, jobs do refs[k] = ARGV[first + (k - 1) * JOB + 1] end
local tokens = call('HMGET', P .. 'tok', unpack(refs))
knowSplits(call('HGET', P .. 'cur', '/'))
local other = splits ~= tonumber(ARGV[1]) -- than the keys go by

local held, drop, lost, seen = {}, {}, {}, {} -- held: where the arguments of jobs with held leases begin
for k = 1, jobs do
  local at, ref = first + (k - 1) * JOB, refs[k]
  if tokens[k] == ARGV[tonumber(ARGV[at])] and not seen[ref] then
    seen[ref], held[#held + 1], drop[#drop + 1] = true, at, ref
  else
    lost[#lost + 1] = k
  end
end
if #held == 0 then return {lost, splits, 0} end
call('ZREM', P .. 'lease', unpack(drop))
call('HDEL', P .. 'tok', unpack(drop))

local names, running = {}, {}
for kind = kinds, first - 1, KIND do
  local topic = ARGV[kind + 1]
  if not running[topic] then names[#names + 1], running[topic] = topic, 0 end
end
know(names, 'nu', running)

local function done(at, topic)
  local page, index, key, field = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if other then key = smallHash(tonumber(string.match(key, 'i:(%d+)', #P)), field) end
  redis.pcall('LSET', pageKey(page), index, '')
  local record = ARGV[at + 6]
  if record == '' or not remember(topic, record, key, field) then call('HDEL', key, field) end
  gone(topic, page, 1)
end

local function keepAttempts(at) call('HSET', P .. 'a:' .. ARGV[at + 2], ARGV[at + 3], ARGV[at + 5]) end

local function delay(at, topic)
  local time = now + ARGV[at + 4]
  keepAttempts(at)
  call('ZADD', P .. 'd:' .. topic, time, ARGV[at + 1])
  event(topic, time)
end

local deaths = 0
local function die(at, topic)
  keepAttempts(at)
  deaths = deaths + 1
  call('ZADD', P .. 'x:' .. topic, now, ARGV[at + 1])
end

local outcomes = {
  D = done, -- delivered
  K = function(at, topic) -- delivered, with attempts or a body key to remove
    call('UNLINK', P .. 'b:' .. ARGV[at + 1])
    call('HDEL', P .. 'a:' .. ARGV[at + 2], ARGV[at + 3])
    done(at, topic)
  end,
  L = function(at, topic) putBack(topic, ARGV[at + 1]) end, -- not called
  R = delay, -- failed, to be retried
  S = delay, -- snoozed
  B = die, -- failed for good
  E = die, -- expired
}
-- The letters in t:TOPIC that an outcome counts, and the state that it leaves a job in, unless the outcome itself
-- counts that.
local TOTALED = {D = 'd', K = 'd', L = '', R = 'fr', S = 'z', B = 'fk', E = 'ek'}
local LEFT = {R = 'nd', S = 'nd', B = 'nx', E = 'nx'}

local tally = {} -- by kind: number of jobs
for _, at in ipairs(held) do
  local kind = tonumber(ARGV[at])
  outcomes[ARGV[kind + 2]](at, ARGV[kind + 1])
  tally[kind] = (tally[kind] or 0) + 1
end
local reached = {} -- by topic: attempts that reached its endpoint, and those that did not
for kind, n in pairs(tally) do
  local topic, verdict, endpoint = ARGV[kind + 1], ARGV[kind + 2], ARGV[kind + 3]
  for what in string.gmatch(TOTALED[verdict], '.') do total(what, topic, n) end
  if LEFT[verdict] then count(LEFT[verdict], topic, n) end
  count('nu', topic, -n)
  local t = reached[topic]
  if not t then t = {up = 0, down = 0, [''] = 0}; reached[topic] = t end
  t[endpoint] = t[endpoint] + n
end
writeFinished()

-- Adjusts windows and breakers. If the endpoint answered, the window grows while it is used, and the breaker closes. If
-- not, the window halves, and after ten failures in a row the breaker opens, for 1 s, 2 s, 4 s … up to a minute between
-- probes.
local noted = having('f:', names)
local function judge(topic, up, down)
  local key = P .. 'f:' .. topic
  local f = noted[topic] and call('HMGET', key, 'w', 'k', 'o', 'b', 'g') or {}
  local window, fails = tonumber(f[1] or WINDOW), tonumber(f[2] or 0)
  local open, pause = tonumber(f[3] or 0), tonumber(f[4] or 0)
  local running = tonumber(running[topic])
  if up > 0 then
    if open > 0 then
      window = WINDOW
    elseif running >= window / 2 then
      window = math.min(window + up, 1000000)
    end
    if fails > 0 or open > 0 then call('HSET', key, 'k', 0, 'o', 0, 'b', 0) end
    if window ~= tonumber(f[1] or WINDOW) then call('HSET', key, 'w', window, 'l', now) end
  elseif down > 0 then
    fails = fails + down
    window = math.max(4, floor(window / 2))
    if open == 0 and fails >= 10 then
      pause = 1000
      open = now + pause
    elseif open > 0 and running - down <= 0 and now >= open then
      pause = math.min(pause * 2, 60000)
      open = now + pause
    end
    call('HSET', key, 'w', window, 'l', now, 'k', fails, 'o', open, 'b', pause)
  end
  if f[5] then
    call('HDEL', key, 'g')
    unpark(topic)
  end
end

for topic, t in pairs(reached) do judge(topic, t.up, t.down) end
finish()
return {lost, splits, deaths > 0 and revise(deaths) or 0}
