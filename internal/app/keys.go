package app

import "github.com/wakecall/wakecall/conf"

// GatewayKeys returns the configuration keys of all protocols.
func GatewayKeys() (keys []conf.Key) {
	for _, p := range Protocols() {
		keys = append(keys, p.Keys...)
	}
	return keys
}
