#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, describe.
-- Gives the waiting jobs of a group that belong to some topics another due time, a step at a time.
-- KEYS[1] the bucket's prefix.
-- ARGV    group, topic patterns, cursor ('0' in the first step), about how many jobs, due time ('+ms' from now, 'ms',
--         or 'by MS' from when each job may be called now), key of the request ('' none).
-- Returns {now in µs, cursor ('0' at the end), how many jobs run, are dead or would expire, then topic and description
--         of each job that was moved, now or by an earlier request with the key}.
-- Keeps   with a key, each job is moved once however often the request is repeated within a day: moved:KEY GROUP has
--         them. The answer is the same, because the journal may have missed the first one.
local group, patterns, key = ARGV[1], ARGV[2], P .. 'moved:' .. ARGV[6] .. ' ' .. ARGV[1]
local by = tonumber(string.match(ARGV[5], '^by (.+)$'))
local revision = tonumber(call('GET', P .. 'rev') or 0)
local out, moved = {micros, '0', 0}, {}

local function movedBefore(member) return ARGV[6] ~= '' and call('HEXISTS', key, member) == 1 end

local function move(topic, id, job)
  if not job then return end
  if job.state == 'waiting' and movedBefore(topic .. '/' .. id) then
    out[#out + 1], out[#out + 2] = topic, describe(topic, id, job, true)
    return
  end
  local at = by and math.max(nextOf(job) + by, 0) * 1000 or instant(ARGV[5])
  local expires = tonumber(get(job, 'expires'))
  if job.state ~= 'waiting' or expires and at >= 1000 * expires then
    out[3] = out[3] + 1
    return
  end
  takeOut(topic, id, job)
  revision = revision + 1
  job.revision, job.due = text(revision), text(math.floor(at / 1000))
  set(job, 'next', nil)
  write(topic, id, job)
  file(topic, id, job, at)
  out[#out + 1], out[#out + 2] = topic, describe(topic, id, job, true)
  moved[#moved + 1], moved[#moved + 2] = topic .. '/' .. id, ''
end

out[2] = visit(group, patterns, ARGV[3], ARGV[4], move)
if #moved > 0 then
  call('SET', P .. 'rev', text(revision))
  if ARGV[6] ~= '' then
    call('HSET', key, unpack(moved))
    call('PEXPIRE', key, 86400000)
  end
end
return out
