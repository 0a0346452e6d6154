#!lua
-- Tests whether a server accepts writes and its user has the rights that scripts need.
-- KEYS[1] the bucket's prefix.
-- Returns 1.
-- Keeps   all invariants: nobody reads the key, which expires, or listens to the channel.
call('SET', P .. 'probe', 1, 'EX', 60)
call('PUBLISH', P .. 'probe', '')
return 1
