#!lua flags=allow-oom
-- With: server, record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, finished,
-- copy, lines, cursors.
-- Applies lines of a journal to the bucket: of all changes of a job the one with the highest revision decides, in
-- whatever order and from however many hosts their lines come.
-- KEYS[1] the bucket's prefix.
-- ARGV    'compare', 'late' or 'hand'; name of the comparison ('' by hand); '1' for a dry run; then for each line:
--         kind, revision, topic, id, creation in ms, record, body if it has a key of its own, else '', when the job
--         died in ms, or '', why, number of attempts, and these. Kinds: 'stored' (the whole job), 'adopted' (one of a
--         former shard, stored if there is none), 'deleted', 'delivered', 'died', 'cleared' (the jobs of a topic,
--         which drop.lua deletes), 'cancelled' (those of a group, which cancelgroup.lua deletes), 'closed' (a group
--         is, until 'died'); groups are escaped ids, and their topics patterns. Ends of jobs have the schedule as their
--         record; a delivery that somebody waited for has its result as the body, and when it ended as 'died'.
--         'cursor' and 'moved' (the same, from a former shard) are a schedule's state: its name as the id,
--         revision of its definition (0: removed) as the creation, last occurrences as the record, cursor as 'died',
--         up to which (ms) occurrences are of an earlier schedule of its name as the reason, and instead of attempts
--         how many were left out: reason, number. 'fired' (an occurrence of the schedule that
--         the id names was pushed) has its nominal time as 'died'.
-- Returns for each the effect: 'stored', 'replaced', 'removed', 'buried', or '' for none.
-- Keeps   the same lines again change nothing. A cursor is never before an occurrence that a line tells to have been
--         pushed. A full Redis stores what it has lost, since it would never open
--         otherwise; by hand, when many jobs of former shards may be stored, it refuses the whole script.
local open, before, begun = comparison()
if mode == 'compare' then
  local cmp = call('HMGET', P .. 'cmp', 'name', 'after')
  run.after = tonumber(cmp[2] or 0)
  if cmp[1] ~= ARGV[2] or not begun or open then -- jobs may have ended since
    return redis.error_reply('OTHERSERVER the comparison has ended')
  end
elseif mode == 'late' and not open then
  return redis.error_reply(NOTCOMPARED)
end

local out, i = {}, 4
while i <= #ARGV do
  local n = tonumber(ARGV[i + 9])
  out[#out + 1] = kinds[ARGV[i]]({
    kind = ARGV[i], revision = tonumber(ARGV[i + 1]), topic = ARGV[i + 2], id = ARGV[i + 3],
    created = ARGV[i + 4], record = ARGV[i + 5], long = ARGV[i + 6], died = ARGV[i + 7], reason = ARGV[i + 8],
    attempts = {unpack(ARGV, i + 10, i + 9 + n)},
  })
  i = i + 10 + n
end
if mode == 'late' and before == '' then call('PEXPIRE', RV, 3600000) end
return out
