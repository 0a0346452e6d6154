#!lua flags=allow-oom
-- Extends leases.
-- KEYS[1] the bucket's prefix.
-- ARGV    how long from now in ms, then pairs (ref, token).
-- Returns 1 or 0 for each: whether the lease is still held.
-- Keeps   all invariants: only lease times move.
local refs, out, args = {}, {}, {}
for i = 2, #ARGV, 2 do refs[#refs + 1] = ARGV[i] end
local held = call('HMGET', P .. 'tok', unpack(refs))
local expiry = now + ARGV[1]
for k, ref in ipairs(refs) do
  local ok = held[k] == ARGV[k * 2 + 1]
  out[k] = ok and 1 or 0
  if ok then args[#args + 1], args[#args + 2] = expiry, ref end
end
if #args > 0 then call('ZADD', P .. 'lease', 'XX', unpack(args)) end
return out
