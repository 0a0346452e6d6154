#!lua
-- Finds out whether a server takes writes, and lets its user do what scripts do.
-- KEYS[1] the bucket's prefix.
-- Returns 1.
-- Keeps   all invariants: nobody reads the key, which expires, or listens to the channel.
call('SET', P .. 'probe', 1, 'EX', 60)
call('PUBLISH', P .. 'probe', '')
return 1
