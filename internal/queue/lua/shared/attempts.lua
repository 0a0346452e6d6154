-- A job's entry in a:PAGE: attempts made, snoozes, reason and history as attempts.go writes them; made is nil when the
-- entry is damaged.
local function readAttempts(page, index)
  local text = call('HGET', P .. 'a:' .. page, index)
  if not text then return 0, 0, '', '[]' end
  local made, snoozes, reason, history = string.match(text, '^(%d+);(%d+);([^;]*);(.*)$')
  return tonumber(made), snoozes, reason, history, text
end

local function writeAttempts(page, index, made, snoozes, reason, history)
  call('HSET', P .. 'a:' .. page, index, made .. ';' .. snoozes .. ';' .. reason .. ';' .. history)
end

-- Resets the attempts of a dead job to 0. Its history stays.
local function restartAttempts(page, index)
  local made, _, reason, history = readAttempts(page, index)
  if made then writeAttempts(page, index, 0, 0, string.match(reason, '@.*$') or '', history) end
end

-- Ends a ready job that has expired. The caller takes it out of its ready list.
local function expire(topic, ref, page, index, rec)
  if confOf(topic).drop then
    total('x', topic, 1)
    return remove(topic, tonumber(ref), page, index, rec)
  end
  local made, snoozes, _, history = readAttempts(page, index)
  writeAttempts(page, index, made or 0, snoozes or 0, 'expired', history or '[]')
  call('ZADD', P .. 'x:' .. topic, now, ref)
  count('nr', topic, -1)
  count('nx', topic, 1)
  total('k', topic, 1)
  total('e', topic, 1)
end
