package conf

import (
	"encoding/json"
	"fmt"
)

// private is a Config on its way to another process, with its secrets.
type private struct {
	Base     string              `json:"base"`
	File     string              `json:"file,omitempty"`
	Settings map[string][]string `json:"settings"`
	Sources  map[string]string   `json:"sources,omitempty"`
}

// MarshalPrivate is the whole configuration as JSON, secrets included. It is for a private pipe between the master and
// its children: do not log, store or serve it.
func (c *Config) MarshalPrivate() ([]byte, error) {
	p := private{Base: c.abs(""), File: c.file, Settings: map[string][]string{}, Sources: c.sources}
	for _, s := range c.settings() {
		p.Settings[s.key] = s.get()
	}
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	return data, nil
}

// UnmarshalPrivate makes c what MarshalPrivate was called on.
func (c *Config) UnmarshalPrivate(data []byte) error {
	var p private
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decoding the configuration: %w", err)
	}
	var received Config
	for _, s := range received.settings() {
		texts, ok := p.Settings[s.key]
		if !ok {
			return fmt.Errorf("decoding the configuration: it lacks %s", s.key)
		}
		if err := s.set(texts); err != nil {
			return fmt.Errorf("decoding the configuration: %s %w", s.key, err)
		}
	}
	received.base, received.file, received.sources = p.Base, p.File, p.Sources
	*c = received
	return nil
}
