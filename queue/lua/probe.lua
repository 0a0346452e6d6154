#!lua
-- Finds out whether a server takes writes.
-- KEYS[1] the bucket's prefix.
-- Returns 1.
-- Keeps   all invariants: nobody reads it, and it goes by itself.
call('SET', P .. 'probe', 1, 'EX', 60)
return 1
