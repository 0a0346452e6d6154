#!lua flags=no-writes
-- Counts jobs of the topics that have had one, some topics in each call.
-- KEYS[1] the bucket's prefix.
-- ARGV    nd, nr, nu or nx; the cursor, at first 0; about how many topics.
-- Returns the next cursor, 0 at the end; then for each topic its name and its jobs in that state.
-- Keeps   all invariants: it reads.
local page = call('HSCAN', P .. ARGV[1], ARGV[2], 'COUNT', ARGV[3])
table.insert(page[2], 1, page[1])
return page[2]
