-- A record: state (waiting, running, dead or done), priority, due time, creation, attempts and revision, then
-- name=value pairs of what only some jobs have, all separated by spaces; after the line break the body. record.go has
-- the pairs.
local RECORD = '^(%l+) (%l+) (%d+) (%d+) (%d+) (%d+)([^\n]*)()\n'
local WORDS = {waiting = 1, running = 1, dead = 1, done = 1, high = 2, normal = 2, low = 2}

-- Returns nil when there is no record, or a damaged one. Numbers stay text, as most jobs need none of them.
local function parse(record)
  local state, priority, due, created, attempts, revision, more, body = string.match(record or '', RECORD)
  if WORDS[state] ~= 1 or WORDS[priority] ~= 2 then return nil end
  return {
    state = state, priority = priority, due = due, created = created, attempts = attempts, revision = revision,
    more = more, body = string.sub(record, body),
  }
end

local function get(job, name)
  if job.more == '' then return nil end
  local _, at = string.find(job.more, ' ' .. name .. '=', 1, true)
  return at and string.match(job.more, '^%S+', at + 1)
end

-- Sets a pair, or removes it (nil).
local function set(job, name, value)
  local from, to = string.find(job.more, ' ' .. name .. '=', 1, true)
  if from then job.more = string.sub(job.more, 1, from - 1) .. string.match(job.more, '^%S*(.*)', to + 1) end
  if value then job.more = job.more .. ' ' .. name .. '=' .. value end
end

-- Removes the token of a running job, which is its last pair. Returns false when the job has another one.
local function unlease(job, token)
  local from, to = string.find(job.more, ' token=' .. token, 1, true)
  if to ~= #job.more then return false end
  job.more = string.sub(job.more, 1, from - 1)
  return true
end

-- Whether a job has a list of attempts.
local function tried(job) return tonumber(job.attempts) > 0 or get(job, 'snoozes') or get(job, 'tried') end

-- When a waiting job may be called: at its due time, or that of its retry.
local function nextOf(job) return tonumber(get(job, 'next') or job.due) end

-- Makes a record of the fields of a job, whose body includes the line break; last is a pair to be added.
local function render(job, last)
  return job.state .. ' ' .. job.priority .. ' ' .. job.due .. ' ' .. job.created .. ' ' .. job.attempts .. ' '
    .. job.revision .. job.more .. (last or '') .. job.body
end

local function write(topic, id, job) call('HSET', P .. 'j:' .. topic, id, render(job)) end

local function find(topic, id) return parse(call('HGET', P .. 'j:' .. topic, id)) end
