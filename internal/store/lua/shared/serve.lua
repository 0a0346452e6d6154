-- Chooses among the topics of a worker's request.
local function takeOf(topic, priority, n)
  local g = gate(topic, true)
  return g.room > 0 and take(topic, priority, n, g) or 0
end

-- Whether a topic has a due job. One that has none is checked once: nothing becomes due in a call.
run.idle = {}
local function hasDue(topic)
  local w = P .. 'w:'
  if run.idle[topic] then return false end
  if call('EXISTS', w .. 'high:' .. topic, w .. 'normal:' .. topic, w .. 'low:' .. topic) > 0 then
    for _, priority in ipairs(PRIORITIES) do
      local at = head(w .. priority .. ':' .. topic) or math.huge
      if at <= DUE then return true end
      if at <= micros + 1000 then event(topic, at / 1000) end -- file has offered it already, a little early
    end
  end
  run.idle[topic] = true
  return false
end

-- Takes up to n jobs of a priority, round robin over the topics; turns has the number of the one that was served last.
local function inTurn(topics, priority, n)
  local k, before, last = 0, -1, tonumber(call('HGET', P .. 'turns', priority) or 0)
  while k < n and k > before do
    before = k
    local first = last
    for i = 0, #topics - 1 do
      local at = (first + i) % #topics + 1
      local some = k < n and takeOf(topics[at], priority, math.ceil((n - k) / (#topics - i))) or 0
      if some > 0 then k, last = k + some, at end
    end
  end
  if k > 0 then call('HSET', P .. 'turns', priority, last) end
  return k
end

-- Takes up to n jobs, of all topics with an order of their own those with the lowest number.
local function inOrder(topics, n)
  local k, heads = 0, {}
  local function first(topic)
    local score, member = head(P .. 'o:' .. topic)
    heads[topic] = score and score <= LAST and {score, member} or nil
  end
  for _, topic in ipairs(topics) do
    if settings(topic).order then
      orderDue(topic, ORDERED)
      first(topic)
    end
  end
  while k < n do
    local best, lowest
    for topic, at in pairs(heads) do
      if not best or at[1] < lowest[1] or at[1] == lowest[1] and at[2] < lowest[2] then best, lowest = topic, at end
    end
    if not best then break end
    k = k + takeOf(best, 'normal', 1)
    first(best)
    if heads[best] and heads[best][2] == lowest[2] then heads[best] = nil end -- its limits allow none
  end
  return k
end
