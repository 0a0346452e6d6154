-- Precedes scripts that must not begin after their caller has given up, see deadline.go. Their arguments are followed
-- by one more: until when they may begin, in ms by this server's clock.
if now > tonumber(table.remove(ARGV)) then return redis.error_reply(string.format('TOOLATE %d', now)) end
