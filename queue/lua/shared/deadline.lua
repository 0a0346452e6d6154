-- Precedes scripts that must not begin when their caller has given up, see deadline.go. Behind the arguments that they
-- name is one more: until when they may begin, in ms by this server's clock.
if now > tonumber(table.remove(ARGV)) then return redis.error_reply(string.format('TOOLATE %d', now)) end
