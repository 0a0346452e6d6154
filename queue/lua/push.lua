#!lua
-- Stores jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    four a job: topic; locator (3 bytes which small hash, 8 bytes field), mode (bits 0-1: keep, replace, refuse;
--         bit 2: the time is an instant, otherwise a delay) and time in ms (6 bytes); flags, id length, id, extras and
--         body; the body again when it is long and has a key of its own (flag 4), else ''.
-- Returns {now, one of these for each job}: the due time in ms when it was stored; {kind, description} when the id lived
--         already, kind 'k' kept, 'p' replaced (followed by the new due time), 'e' refused; 'c' when another id has the same hash.
-- Keeps   invariants 1 to 4. No flag: a full Redis refuses the whole script before it has written anything.
local out = {now}
for i = 1, #ARGV, 4 do
  local topic, head, tail, long = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local n, field, mode, time = struct.unpack('>I3c8BI6', head)
  local flags, len = string.byte(tail, 1, 2)
  local due = time
  if mode < 4 then due = now + time else mode = mode - 4 end
  local id = string.sub(tail, 3, 2 + len)
  local ref, page, index, rec = find(topic, n, field, id)
  local answer
  if page == 'collision' then
    answer = 'c'
  elseif ref and mode ~= 1 then
    answer = {mode == 0 and 'k' or 'e', describe(topic, ref, page, index, rec, true)}
  else
    answer = due
    if ref then
      remove(topic, ref, page, index, rec)
      answer = {'p', due}
    end
    local new = store(topic, flags % 4, due, struct.pack('>I6I6', due, now) .. tail, due)
    call('HSET', P .. 'i:' .. n, field, new)
    if long ~= '' then call('SET', P .. 'b:' .. new, long) end
  end
  out[#out + 1] = answer
end
finish()
return out
