-- Precedes pushes of ids that no journal can have, and pushes that replace: their revisions are above all that the
-- journals have, so they are also stored while the server is being compared, or while hosts are absent.
do
  local _, before, begun = comparison()
  if not begun then return redis.error_reply(NOTCOMPARED) end
  run.before = before
end
