-- What replaying a line about a schedule does, see replay.lua.
-- rv has, under @NAME, what lines said about a schedule: the revision of the last one; at, up to which (ms) occurrences
-- were pushed; gone, up to which they were those of an earlier schedule of its name.

local function knownOf(name)
  return cjson.decode(call('HGET', RV, '@' .. name) or '{"revision":0,"at":0,"gone":0}')
end

local function know(name, known)
  if mode ~= 'hand' and not dry then call('HSET', RV, '@' .. name, cjson.encode(known)) end
end

-- Returns the occurrences of two lists, after gone. Those of jobs that have ended since may say that they wait.
local function merge(topic, a, b, gone)
  local last, have = {}, {}
  for _, list in ipairs({a, b}) do
    for _, one in ipairs(list) do
      if not have[one.id] and one['for'] > gone then last[#last + 1] = one end
      have[one.id] = true
    end
  end
  table.sort(last, function(x, y) return x['for'] < y['for'] end)
  for _, one in ipairs(last) do
    local job = find(topic, one.id)
    local ended = ENDED[endOf({topic = topic, id = one.id}).kind]
    if ended and (one.state == 'delayed' or one.state == 'ready') and (not job or job.state == 'done') then
      one.state = ended
    end
  end
  return last
end

local function removeCursor(line, key)
  call('UNLINK', key)
  call('SREM', P .. 'schedules', line.id)
end

-- Makes a schedule's state that of a line.
local function setCursor(line, key, last, at)
  call('UNLINK', key)
  call('HSET', key, 'topic', line.topic, 'rev', line.created, 'at', text(at), 'revision', text(line.revision),
    unpack(line.attempts))
  setLast(key, last)
  call('SADD', P .. 'schedules', line.id)
end

local function raise(key, at, to)
  if to > tonumber(at) and not dry then call('HSET', key, 'at', text(to)) end
  return to > tonumber(at) and 'replaced' or ''
end

function kinds.cursor(line)
  local key, known = P .. 's:' .. line.id, knownOf(line.id)
  local have = call('HMGET', key, 'revision', 'topic', 'at')
  local newest = math.max(tonumber(have[1]) or mode == 'compare' and run.after or 0, known.revision)
  known.gone = math.max(known.gone, line.reason)
  known.revision = math.max(known.revision, line.revision)
  know(line.id, known)
  local last = merge(line.topic, have[2] == line.topic and lastOf(key) or {}, cjson.decode(line.record), known.gone)
  if line.revision <= newest then
    if have[2] == line.topic and not dry then setLast(key, last) end
    return ''
  end
  if line.created ~= '0' then
    if not dry then setCursor(line, key, last, math.max(line.died, known.at)) end
    return 'stored'
  end
  if have[1] and not dry then removeCursor(line, key) end
  return have[1] and 'removed' or ''
end

-- From a shard that is no longer in use: its revisions say nothing here.
function kinds.moved(line)
  local key = P .. 's:' .. line.id
  local have = call('HMGET', key, 'topic', 'at')
  if have[1] == line.topic then return raise(key, have[2], tonumber(line.died)) end
  if have[1] then return '' end
  if not dry then
    line.revision = call('INCR', P .. 'rev')
    setCursor(line, key, cjson.decode(line.record), line.died)
  end
  return 'stored'
end

function kinds.fired(line)
  local known, key, at = knownOf(line.id), P .. 's:' .. line.id, tonumber(line.died)
  if at > known.at then
    known.at = at
    know(line.id, known)
  end
  local have = call('HMGET', key, 'topic', 'at')
  return have[1] == line.topic and raise(key, have[2], at) or ''
end
