package conf

import (
	"encoding/json"
	"errors"
	"fmt"
)

// private is the wire form of a Config with its secrets. A reload may start children of a newer or older version than
// the master, so fields may only be added.
type private struct {
	File     string             `json:"file,omitempty"`
	Settings map[string]*loaded `json:"settings"`
}

// MarshalPrivate returns the whole configuration as JSON, including secrets. It is for the pipe between the master and
// its children: do not log, store or serve it.
func (c *Config) MarshalPrivate() ([]byte, error) {
	return json.Marshal(private{File: c.loaded.file, Settings: c.loaded.settings})
}

// UnmarshalPrivate returns the configuration that MarshalPrivate wrote. A key unknown to the master has its default;
// one unknown to this process is ignored.
func UnmarshalPrivate(data []byte, gateways []Key) (*Config, error) {
	var p private
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	if len(p.Settings) == 0 {
		return nil, errors.New("decode the configuration: it has no settings")
	}
	l := newLoader(gateways)
	l.file = p.File
	for _, k := range l.keys {
		if s := p.Settings[k.Path]; s != nil {
			l.set(k.Path, s.Value, s.Source, false)
		}
	}
	return l.config()
}
