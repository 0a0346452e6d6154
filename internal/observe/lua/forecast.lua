#!lua flags=no-writes
-- With: record, stats.
-- Counts the jobs of a topic that are ready, and those that fall due in each of the next minutes.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many lists of minutes to skip, how many to count, how many minutes ahead at most, how many ms are
--         recent.
-- Returns {now in ms; how many lists were counted; how many jobs are ready; for how many ms the oldest one; how many of
--         them fell due in each half of that time, or of twice the recent time if that is shorter: the lower number;
--         how many of the latest were examined; how many of these were pushed recently; a list of pairs: a minute from
--         now, from 1, and how many jobs fall due in it}. A minute may come several times. Jobs in w and h are counted
--         when no list is skipped.
-- Keeps   it writes nothing.
local topic, skip, limit, ahead = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local recent = tonumber(ARGV[5])
local LATEST = 10
local young, older, examined, fresh, counts = 0, 0, 0, 0, {}

local function add(minute, jobs) counts[#counts + 1], counts[#counts + 2] = minute, jobs end

-- Counts the jobs of a set of w, minute by minute.
local function countDue(w)
  local from = DUE
  while true do
    local due = call('ZRANGE', w, '(' .. text(from), text((now + ahead * 60000) * 1000), 'BYSCORE', 'LIMIT', 0, 1,
      'WITHSCORES')[2]
    if not due then return end
    local minute = math.max(1, math.ceil((due / 1000 - now) / 60000))
    local upto = (now + minute * 60000) * 1000
    add(minute, call('ZCOUNT', w, '(' .. text(from), text(upto)))
    from = upto
  end
end

-- Counts which of the ready jobs that fell due last were pushed recently.
local function examine(w)
  for _, id in ipairs(call('ZRANGE', w, text(DUE), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, LATEST)) do
    local job = find(topic, id)
    examined = examined + 1
    if job and now - job.created < recent then fresh = fresh + 1 end
  end
end

local stats = skip == 0 and statsOf(topic) or {0, 0, 0, 0, 0}
local half = math.min(stats[5], 2 * recent) * 500
for _, set in ipairs(skip == 0 and {'w:high:', 'w:normal:', 'w:low:', 'h:'} or {}) do
  local w = P .. set .. topic
  young = young + call('ZCOUNT', w, '(' .. text(micros - half), text(DUE))
  older = older + call('ZCOUNT', w, '(' .. text(micros - 2 * half), text(micros - half))
  examine(w)
  countDue(w)
end
local last = math.floor(now / 60000) + ahead
local lists = call('ZRANGE', P .. 'm:' .. topic, '-inf', last, 'BYSCORE', 'LIMIT', skip, limit)
local stale = #lists > 0 and call('HMGET', P .. 'z:' .. topic, unpack(lists)) or {}
for i, minute in ipairs(lists) do
  local wait = math.max(0, minute * 60000 + 30000 - now)
  add(math.floor(wait / 60000) + 1, call('LLEN', P .. 'f:' .. topic .. ':' .. minute) - (stale[i] or 0))
end
return {now, #lists, stats[2], stats[5], math.min(young, older), examined, fresh, counts}
