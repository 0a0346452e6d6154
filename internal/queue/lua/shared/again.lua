-- Answers the jobs again that an earlier call leased under its token, with what each request's leases have as token.
-- Returns whether it found that call.
local function again(name, token, tokens, got)
  local stored = call('GET', P .. 'v:' .. name)
  if not stored or string.sub(stored, 1, #token + 1) ~= token .. '\n' then return false end
  for number, topic, id in string.gmatch(stored .. '\n', '\n(%d+)\n([^\n]+)\n([^\n]+)%f[\n]', #token) do
    local job, n = find(topic, id), tonumber(number)
    if job and job.state == 'running' and get(job, 'token') == tokens[n] then
      run.out[2] = tonumber(job.revision)
      answer(topic, id, job.record, tonumber(call('ZSCORE', P .. 'l:' .. topic, id)), job.attempts, job.more)
      if got then got[n] = got[n] + 1 end
    end
  end
  return true
end
