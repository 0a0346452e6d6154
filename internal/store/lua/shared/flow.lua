-- Adjusts a topic's window and breaker after calls. When the endpoint answered, the window grows while it is used, and
-- the breaker closes. When it did not, the window halves, and after ten failures in a row the breaker opens, for 1 s,
-- 2 s, 4 s … up to a minute between probes. A topic that waited for its own calls gets its turn again.
local function judge(topic, up, down, ended)
  local s, key = settings(topic), P .. 'c:' .. topic
  local running = call('ZCARD', P .. 'l:' .. topic) + ended
  if up > 0 then
    if s.fails > 0 or s.open > 0 then call('HDEL', key, 'fails', 'open', 'probe') end
    if s.open > 0 then
      call('HSET', key, 'window', 32, 'windowAt', now)
    elseif running >= s.window / 2 then
      call('HSET', key, 'window', math.min(s.window + up, 1000000), 'windowAt', now)
    end
  elseif down > 0 then
    local fails, open, probe = s.fails + down, s.open, s.probe
    if open == 0 and fails >= 10 then
      probe = 1000
      open = now + probe
    elseif open > 0 and running - ended <= 0 and now >= open then
      probe = math.min(probe * 2, 60000)
      open = now + probe
    end
    local window = math.max(4, math.floor(s.window / 2))
    call('HSET', key, 'window', window, 'windowAt', now, 'fails', fails, 'open', open, 'probe', probe)
  end
  if ended == 0 then return end
  if s['until'] > 0 then
    call('HDEL', key, 'until')
    s['until'] = 0
    offerDue(topic)
  elseif s.pull and s.flight > 0 then
    local at = offerDue(topic) -- next need not have it: the job before may have been deleted while workers waited
    if at < math.huge then event(topic, at) end
  end
end
