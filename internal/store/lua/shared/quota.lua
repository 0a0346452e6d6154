-- Counts the jobs that wait or run for tokens with a quota of waiting jobs. The pair quota has the ids of the tokens; the
-- hash quota has the number of each.

-- Counts n more jobs, or fewer, for the tokens of a job.
local function weigh(job, n)
  for token in string.gmatch(get(job, 'quota') or '', '%d+') do
    if call('HINCRBY', P .. 'quota', token, n) <= 0 then call('HDEL', P .. 'quota', token) end
  end
end
