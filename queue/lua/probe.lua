#!lua
-- Finds out whether a server takes writes.
-- KEYS[1] the bucket's prefix.
-- Returns 1.
-- Keeps   all invariants: nobody reads the key, and it expires.
call('SET', P .. 'probe', 1, 'EX', 60)
return 1
