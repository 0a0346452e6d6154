package conf

import (
	"encoding/json"
	"errors"
	"fmt"
)

// private is the wire form of a Config with its secrets. A reload may start children of a newer or older version than
// the master, so fields may only be added.
type private struct {
	File     string    `json:"file,omitempty"`
	Settings []Setting `json:"settings"`
}

// MarshalPrivate returns the whole configuration as JSON, including secrets. It is for the pipe between the master and
// its children: do not log, store or serve it.
func (c *Config) MarshalPrivate() ([]byte, error) {
	p := private{File: c.loaded.file}
	for _, k := range c.loaded.keys {
		p.Settings = append(p.Settings, c.loaded.settings[k.Path].Setting)
	}
	return json.Marshal(p)
}

// UnmarshalPrivate returns the configuration that MarshalPrivate wrote. A key that the master does not know has its
// default; one that this process does not know is ignored.
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
	for _, s := range p.Settings {
		if l.key(s.Key) != nil {
			l.set(s.Key, s.Value, s.Source, false)
		}
	}
	c, err := l.config()
	if err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	return c, nil
}
