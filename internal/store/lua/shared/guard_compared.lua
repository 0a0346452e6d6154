-- Precedes every script that reads or changes jobs. A server that has not been compared with the journals of the hosts
-- may have lost accepted changes, so the script does nothing, see reconcile/compare.go.
do
  local compared, before = comparison()
  if not compared then return redis.error_reply(NOTCOMPARED) end
  run.before = before
end
