// Package address parses the URL of a shard, as in redis.nodes and in the registry, hides the passwords in URLs, and
// tells the port of one of HTTP.
package address
