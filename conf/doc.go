// Package conf holds Wakecall's configuration: one typed Config, filled from defaults, a YAML file, the environment and
// flags, each overriding the one before.
//
//	default  →  file  →  environment  →  flags
//
// The table in keys.go lists every key with its default, its type with its bounds, and its help; the gateways add the
// rows of their own keys. conf/wakecall.yaml and docs/reference/configuration.md are generated from it.
//
// The file is LoadOptions.File, else $WAKECALL_CONFIG, else ./wakecall.yaml or /etc/wakecall/wakecall.yaml if one
// exists. An environment variable is WAKECALL_ and the key's path in capitals, joined with _ (server.max_body is
// WAKECALL_SERVER_MAX_BODY); a flag is the path with dashes (--server-max-body). Values have the same syntax in every
// layer.
//
// All problems, in all layers, are collected and reported together as *Errors: an unknown key, an unknown WAKECALL_
// variable, an invalid value, values that contradict each other. Each problem names its source (file and line, variable
// or flag), the key, the value and a remedy. An invalid value is an error even where a later layer overrides it.
//
// registry.dsn, registry.seal_key and the URLs in redis.nodes are Secrets, which print as <secret> in every format.
// Only MarshalPrivate reveals them, for the master to pass to its children.
package conf

//go:generate go run ../scripts/reference
