// Package conf holds Wakecall's configuration: one typed Config, filled from built-in defaults, a YAML file, the
// environment and flags, each overriding the one before.
//
//	default  →  file  →  environment  →  flags
//
// The file is LoadOptions.File, else $WAKECALL_CONFIG, else ./wakecall.yaml or /etc/wakecall/wakecall.yaml where one
// exists; conf/wakecall.yaml, embedded here, is the commented reference. An environment variable is WAKECALL_ and the
// key's path in capitals, joined with _ (server.max_body is WAKECALL_SERVER_MAX_BODY); a flag is the path with dashes
// (--server-max-body). Every layer takes the same text forms.
//
// Whatever is wrong, in any layer, is collected and reported at once as *Errors: an unknown key, an unknown WAKECALL_
// variable, a bad value, values that contradict each other. Each problem names where it stands (file and line,
// variable or flag), the key, the value and the way out. A wrong value is an error even where a later layer overrides it.
//
// Passwords stand in registry.dsn and in the URLs of redis.nodes. Both are Secrets, which print as <secret> in every
// format; MarshalPrivate is the only way that carries them out, for the master to hand to its children.
//
// ParseNode reads one URL of redis.nodes and depends on nothing else here.
package conf
