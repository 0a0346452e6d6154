#!lua flags=allow-oom
-- With: record, topic, order, describe.
-- Reads the first due jobs of a topic with an order of its own, in that order.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many.
-- Returns {now in µs, then descriptions without long bodies}.
-- Keeps   it only moves jobs within o that have fallen due.
local topic, out = ARGV[1], {micros}
orderDue(topic, 500)
for _, member in ipairs(call('ZRANGE', P .. 'o:' .. topic, '-inf', LAST, 'BYSCORE', 'LIMIT', 0, ARGV[2])) do
  local id = string.sub(member, 21)
  local job = find(topic, id)
  if job then out[#out + 1] = describe(topic, id, job, false) end
end
return out
