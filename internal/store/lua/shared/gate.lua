-- What a topic's limits allow.
local IDLE, WINDOW = 5000, 32 -- ms after which a topic starts again with so many calls in flight
run.gates = {}

-- Limits a gate by its topic's rate, with GCRA: room is how many jobs may be taken now.
local function pace(g, rate, tat)
  local every = 1000 / rate
  local burst = every >= 50 and 0 or 50
  if tat > now + burst + every + 1000 then tat = now end -- the rate was lower, or the clock ahead, when it was stored
  g.every, g.burst, g.tat = every, burst, math.max(tat, now)
  local left = math.floor((now + burst - g.tat) / every + 1 + 1e-9)
  if left <= g.room then g.room, g.paced = left, true end
end

-- Gives a topic that was idle its first window again. It is stored, so that it also holds once jobs are running.
local function restart(topic, s)
  if s.window == WINDOW or now - s.windowAt <= IDLE then return end
  call('HDEL', P .. 'c:' .. topic, 'window', 'windowAt')
  s.window, s.windowAt = WINDOW, 0
end

-- How many more jobs of a topic may be taken, by a worker or by a dispatcher; at is when to check again, if known.
local function gate(topic, worker)
  local g = run.gates[topic]
  if g then return g end
  local s = settings(topic)
  local running = call('ZCARD', P .. 'l:' .. topic)
  if running == 0 then restart(topic, s) end
  g = {room = worker and math.huge or s.window - running, taken = 0, at = now + IDLE}
  run.gates[topic] = g
  if s.paused or (s.pull ~= nil) ~= (worker == true) then g.room, g.at = 0, nil end
  if s.open > 0 and not worker then
    g.room = math.min(g.room, running > 0 and 0 or 1) -- one probe at a time
    if now < s.open then g.room, g.at = 0, s.open end
  end
  if s.flight > 0 then g.room = math.min(g.room, s.flight - running) end
  if s.rate > 0 and g.room > 0 then pace(g, s.rate, s.tat) end
  return g
end

-- When the rate of a gate allows the next job.
local function pacedUntil(g) return math.max(now + 1, math.ceil(g.tat + g.taken * g.every - g.burst)) end

-- Takes a topic out of q until its limits may allow a job: at a known time, or when one of its calls ends.
local function park(topic, priority, g)
  call('ZREM', P .. 'q:' .. priority, topic)
  local at = g.paced and pacedUntil(g) or g.at
  if not at then return end
  call('HSET', P .. 'c:' .. topic, 'until', at)
  event(topic, at)
end

-- Stores how much of their topics' limits the jobs that were taken have used.
local function closeGates()
  for topic, g in pairs(run.gates) do
    local s, key = settings(topic), P .. 'c:' .. topic
    if g.taken > 0 and g.tat then call('HSET', key, 'tat', string.format('%.3f', g.tat + g.taken * g.every)) end
    if g.taken > 0 and s.window ~= WINDOW then call('HSET', key, 'windowAt', now, 'window', s.window) end
  end
end
