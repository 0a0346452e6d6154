-- Replies with the jobs that the last call under this name leased, if it had the same token. got counts them by
-- request. Returns whether it had.
local function repeated(name, token, tokens, got)
  local stored = call('GET', P .. 'v:' .. name)
  if not stored or string.sub(stored, 1, #token + 1) ~= token .. '\n' then return false end
  for number, topic, id in string.gmatch(stored .. '\n', '\n(%d+)\n([^\n]+)\n([^\n]+)%f[\n]', #token) do
    local n = tonumber(number)
    if answerAgain(topic, id, tokens[n]) then got[n] = got[n] + 1 end
  end
  return true
end
