-- Replaces clock.lua in an installation for tests: the time is what the key clock says, see standing.go. Until that is
-- set, it is the server's.
local micros = tonumber(redis.call('GET', KEYS[1] .. 'clock') or redis.call('TIME')[1] * 1000000)
local EXPIRING = false -- no key whose end is a time of this clock: Redis would remove it by its own
