#!lua flags=allow-oom
-- Ends leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    four a job: ref, token, locator (11 bytes; of none it begins with three 255) with verdict (1 byte: D done, R retry, S snooze, B bury,
--         L release, E expire), endpoint (1 byte: 0 not called, 1 up, 2 down) and delay in ms (6 bytes), attempts to keep (D: '' when there
--         is neither an attempt nor a body key to remove).
-- Returns 1 or 0 for each: whether the lease was still held. One that was not changes nothing, so a repeated call is harmless.
-- Keeps   invariants 1 to 4; all tokens are compared before anything is written.
local refs, out = {}, {}
for i = 1, #ARGV, 4 do refs[#refs + 1] = ARGV[i] end
local held = call('HMGET', P .. 'tok', unpack(refs))
local drop, done = {}, {}
for k = 1, #refs do
  local ok = held[k] == ARGV[k * 4 - 2]
  out[k] = ok and 1 or 0
  if ok then drop[#drop + 1] = refs[k] end
end
if #drop == 0 then return out end
call('ZREM', P .. 'lease', unpack(drop))
call('HDEL', P .. 'tok', unpack(drop))

local told = {}
local freed = {}
for k, ref in ipairs(refs) do
  local page, index = placeOf(ref)
  local topic = out[k] == 1 and topicOf(page)
  if topic then
    local n, field, verdict, endpoint, delay = struct.unpack('>I3c8c1BI6', ARGV[k * 4 - 1])
    local attempts = ARGV[k * 4]
    local t = told[topic]
    if not t then t = {[0] = 0, 0, 0}; told[topic] = t end
    t[endpoint] = t[endpoint] + 1
    count('nu', topic, -1)
    if verdict == 'D' then
      total('d', topic, 1)
      redis.pcall('LSET', pageKey(page), index, '')
      if n < 16777215 then call('HDEL', P .. 'i:' .. string.format('%d', n), field) end
      if attempts ~= '' then
        call('UNLINK', P .. 'b:' .. ref)
        call('HDEL', P .. 'a:' .. page, index)
      end
      freed[page] = (freed[page] or 0) + 1
    elseif verdict == 'L' then
      local key = P .. 'r:' .. ref % 4 .. ':' .. topic
      if call('LPUSH', key, ref) == 1 then call('RPUSH', P .. 'q:' .. ref % 4, topic) end
      count('nr', topic, 1)
      wakeDispatchers = true
    else
      call('HSET', P .. 'a:' .. page, index, attempts)
      if verdict ~= 'E' then total(verdict == 'S' and 'z' or 'f', topic, 1) end
      if verdict == 'R' or verdict == 'S' then
        if verdict == 'R' then total('r', topic, 1) end
        call('ZADD', P .. 'd:' .. topic, now + delay, ref)
        count('nd', topic, 1)
        event(topic, now + delay)
      else
        call('ZADD', P .. 'x:' .. topic, now, ref)
        count('nx', topic, 1)
        total('k', topic, 1)
        if verdict == 'E' then total('e', topic, 1) end
      end
    end
  end
end
for page, n in pairs(freed) do gone(topicOf(page), page, n) end

-- What the calls told about the endpoint. It answered: the window grows while it is used, the breaker closes. It did not: the
-- window halves, and after ten in a row the breaker opens, for a second, two, four … up to a minute between probes.
for topic, t in pairs(told) do
  local key = P .. 'f:' .. topic
  local f = call('HMGET', key, 'w', 'k', 'o', 'b', 'g')
  local window, fails, open, pause = tonumber(f[1] or WINDOW), tonumber(f[2] or 0), tonumber(f[3] or 0), tonumber(f[4] or 0)
  local running = tonumber(call('HGET', P .. 'nu', topic) or 0)
  local up, down = t[1], t[2]
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
return out
