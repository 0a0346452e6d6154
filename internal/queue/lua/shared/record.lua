-- A record: state (waiting, running, dead or done), priority, due time, creation, attempts and revision, then
-- name=value pairs of what only some jobs have, all separated by spaces; after the line break the body. record.go has
-- the pairs.
local HEAD = '^(%l+) (%l+) (%d+) (%d+) (%d+) (%d+)([^\n]*)()\n'

-- Parts of most records, for scripts that need not parse all of one. The front is the priority, due time and creation.
local WAITING = '^waiting (%l+ %d+ %d+) (%d+) %d+([^\n]*)(\n.*)$' -- front, attempts, pairs, the rest
-- Front, creation, attempts, pairs before the token, token, the rest.
local RUNNING = '^running (%l+ %d+ (%d+)) (%d+) %d+([^\n]*) token=(%S+)(\n.*)$'
local PLAIN = '^done %l+ %d+ %d+ 1 %d+ last=%S+\n' -- a finished job without further keys

-- Makes a record of such parts; tail is the pairs and the rest.
local function joined(state, front, attempts, revision, tail)
  return state .. ' ' .. front .. ' ' .. attempts .. ' ' .. revision .. tail
end

local WORDS = {waiting = 1, running = 1, dead = 1, done = 1, high = 2, normal = 2, low = 2}

-- Returns nil when there is no record, or a damaged one.
local function parse(record)
  local state, priority, due, created, attempts, revision, more, body = string.match(record or '', HEAD)
  if WORDS[state] ~= 1 or WORDS[priority] ~= 2 then return nil end
  return {
    state = state, priority = priority, due = tonumber(due), created = created, attempts = tonumber(attempts),
    revision = revision, more = more, body = body, record = record,
  }
end

local function pair(more, name) return more ~= '' and string.match(more, ' ' .. name .. '=(%S+)') or nil end
local function get(job, name) return pair(job.more, name) end

-- Sets a pair, or removes it (nil).
local function set(job, name, value)
  job.more = string.gsub(job.more, ' ' .. name .. '=%S+', '')
  if value then job.more = job.more .. ' ' .. name .. '=' .. value end
end

-- Whether a job has a list of attempts.
local function hasList(attempts, more) return tonumber(attempts) > 0 or pair(more, 'snoozes') or pair(more, 'tried') end
local function tried(job) return hasList(job.attempts, job.more) end

-- When a waiting job may be called: at its due time, or that of its retry.
local function nextOf(job) return tonumber(get(job, 'next')) or job.due end

-- Makes a job's record of its fields.
local function render(job)
  job.record = job.state .. ' ' .. job.priority .. ' ' .. text(job.due) .. ' ' .. job.created .. ' ' .. job.attempts
    .. ' ' .. job.revision .. job.more .. string.sub(job.record, job.body)
  job.body = string.find(job.record, '\n', 1, true)
  return job.record
end

local function write(topic, id, job) call('HSET', P .. 'j:' .. topic, id, render(job)) end

local function find(topic, id) return parse(call('HGET', P .. 'j:' .. topic, id)) end
