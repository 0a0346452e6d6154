// Package address parses the URL of a shard, as in redis.nodes and in the registry, and hides the passwords in URLs.
package address
