-- Divides jobs among the priorities by a pattern ("0102010201" is 5:3:2). A call continues where the last one stopped.

-- Takes n jobs with fetch(priority, n), which returns how many it got: fewer when the priority has no more. Its share
-- goes to the others then, again by the pattern. Returns how many jobs were taken.
local function byPattern(pattern, n, isEmpty, fetch)
  local empty, left, open = {}, n, 0
  for i, p in ipairs(PRIORITIES) do
    empty[i] = isEmpty(p)
    if not empty[i] then open = open + 1 end
  end
  local pos = tonumber(call('GET', P .. 'pos') or 0)
  while left > 0 and open > 0 do
    local share, rest = {0, 0, 0}, left
    while rest > 0 do
      local i = string.byte(pattern, pos % #pattern + 1) - 47 -- '0' is the first
      pos = pos + 1
      local k = empty[i] and 0 or open == 1 and rest or 1 -- all to the only one that has jobs
      share[i], rest = share[i] + k, rest - k
    end
    for i, p in ipairs(PRIORITIES) do
      local got = share[i] > 0 and fetch(p, share[i]) or 0
      if got < share[i] then empty[i], open = true, open - 1 end
      left = left - got
    end
  end
  if left < n then call('INCRBY', P .. 'pos', n - left) end
  return n - left
end
