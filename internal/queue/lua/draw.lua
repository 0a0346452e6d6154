#!lua flags=allow-oom
-- Draws pushes from the quota of a token: rate a second, of which up to a second's may be saved.
-- KEYS[1] the prefix of bucket 0.
-- ARGV    the token's id, rate, how many are wanted.
-- Returns {how many were drawn, how many are left, ms until the next one when there is none left}.
-- Keeps   over any time, no more are drawn than the rate allows and one second's; data that Redis loses gives one
--         second's more.
local key, rate, wanted = P .. 'rate:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local have = call('HMGET', key, 'left', 'at')
local passed = math.max(0, micros - (have[2] or micros))
local left = math.min(rate, (have[1] or rate) + passed * rate / 1000000)
local drawn = math.min(wanted, math.floor(left))
left = left - drawn
if drawn > 0 then
  call('HSET', key, 'left', string.format('%.6f', left), 'at', text(micros))
  call('PEXPIRE', key, 2000) -- then it is full anyway
end
return {drawn, math.floor(left), left < 1 and math.ceil((1 - left) * 1000 / rate) or 0}
