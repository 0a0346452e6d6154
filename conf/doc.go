// Package conf holds Wakecall's configuration: one typed Config, filled from defaults, a YAML file, the environment and
// flags, each overriding the one before.
//
//	default  →  file  →  environment  →  flags
//
// The table in keys.go lists every key with its default, its kind and its help. koanf merges the layers and fills the
// fields of Config, whose koanf tags are the keys' paths.
//
// The file is LoadOptions.File, else $WAKECALL_CONFIG, else ./wakecall.yaml or /etc/wakecall/wakecall.yaml where one
// exists; conf/wakecall.yaml, embedded here, is the commented reference. An environment variable is WAKECALL_ and the
// key's path in capitals, joined with _ (server.max_body is WAKECALL_SERVER_MAX_BODY); a flag is the path with dashes
// (--server-max-body). Values are written the same way in every layer.
//
// Everything that is wrong, in any layer, is collected and reported at once as *Errors: an unknown key, an unknown
// WAKECALL_ variable, a bad value, values that contradict each other. Each problem names its place (file and line,
// variable or flag), the key, the value and the way out. A bad value is an error even where a later layer overrides it.
//
// registry.dsn and the URLs of redis.nodes have passwords. Both are Secrets, which print as <secret> in every format;
// only MarshalPrivate contains them, for the master to hand to its children.
//
// ParseNode reads one URL of redis.nodes and depends on nothing else here.
package conf
