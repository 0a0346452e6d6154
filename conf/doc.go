// Package conf holds Wakecall's configuration: one typed Config, filled from defaults, a YAML file, the environment and
// flags, each overriding the one before.
//
//	default  →  file  →  environment  →  flags
//
// The table in keys.go lists every key with its default, its kind and its help. koanf merges the layers and fills the
// fields of Config, whose koanf tags are the keys' paths.
//
// The file is LoadOptions.File, else $WAKECALL_CONFIG, else ./wakecall.yaml or /etc/wakecall/wakecall.yaml if one
// exists; conf/wakecall.yaml, embedded here, is the commented reference. An environment variable is WAKECALL_ and the
// key's path in capitals, joined with _ (server.max_body is WAKECALL_SERVER_MAX_BODY); a flag is the path with dashes
// (--server-max-body). Values have the same syntax in every layer.
//
// All problems, in all layers, are collected and reported together as *Errors: an unknown key, an unknown WAKECALL_
// variable, an invalid value, values that contradict each other. Each problem names its source (file and line, variable
// or flag), the key, the value and a remedy. An invalid value is an error even where a later layer overrides it.
//
// registry.dsn and the URLs in redis.nodes contain passwords. Both are Secrets, which print as <secret> in every
// format. Only MarshalPrivate reveals them, for the master to pass to its children.
//
// ParseNode parses one URL of redis.nodes and depends on nothing else here.
package conf
