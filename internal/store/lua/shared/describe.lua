-- The description of a job, which described in job.go reads: id, record, the time that belongs to its state, body if it
-- has a key of its own (of a finished job that somebody waited for: its result as JSON), attempts.
local INDEX = {running = 'l:', dead = 'dead:', done = 'fin:'}

-- Whether a job somebody waited for finished lately; at is its time in fin:TOPIC, see shared/finished.lua.
local function isAnswer(job, at) return job.state == 'done' and tonumber(at) > micros and get(job, 'await') end

local function describe(topic, id, job, whole)
  local index, key = INDEX[job.state], topic .. '/' .. id
  local at = index and call('ZSCORE', P .. index .. topic, id) or 0
  local body = whole and get(job, 'long') and call('GET', P .. 'b:' .. key)
  if whole and isAnswer(job, at) then body = call('GET', P .. 'r:' .. key) end
  local attempts = tried(job) and call('LRANGE', P .. 'a:' .. key, 0, -1)
  if job.state == 'done' or job.state == 'dead' then at = at / 1000 end
  return {id, render(job), math.floor(at), body or '', attempts or {}}
end

-- Whether a job has one of the etags, separated by spaces ('' any); etagOf in job.go makes them.
local function matches(etags, job)
  return etags == '' or string.find(etags, string.sub(redis.sha1hex(render(job)), 1, 16), 1, true) ~= nil
end
