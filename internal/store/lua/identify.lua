#!lua flags=allow-oom
-- Sets the identity of the data, unless it has that of another shard in the registry.
-- KEYS[1] the bucket's prefix.
-- ARGV    the identity, then those of the other shards.
-- Returns the identity that the data has now.
-- Keeps   all invariants: no job depends on it. Data without an identity (new, or flushed) gets this one, and so does
--         data with an identity that the registry does not have.
local is = call('GET', P .. 'shard')
for i = 2, #ARGV do
  if is == ARGV[i] then return is end
end
if is ~= ARGV[1] then call('SET', P .. 'shard', ARGV[1]) end
return ARGV[1]
