package conf

import (
	"encoding/json"
	"errors"
	"fmt"
)

// private is a Config on its way to another process, with its secrets.
type private struct {
	Base    string            `json:"base"`
	File    string            `json:"file,omitempty"`
	Values  map[string]any    `json:"values"`
	Sources map[string]string `json:"sources,omitempty"`
}

// MarshalPrivate is the whole configuration as it was loaded, as JSON, secrets included. It is for the pipe between the
// master and its children: do not log, store or serve it.
func (c *Config) MarshalPrivate() ([]byte, error) {
	l := c.loaded
	return json.Marshal(private{Base: c.abs(""), File: l.file, Values: l.values.All(), Sources: l.sources})
}

// UnmarshalPrivate makes c what MarshalPrivate was called on.
func (c *Config) UnmarshalPrivate(data []byte) error {
	var p private
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode the configuration: %w", err)
	}
	if len(p.Values) != len(keys) {
		return errors.New("decode the configuration: the master has other keys")
	}
	l := newLoader()
	l.base, l.file = p.Base, p.File
	var layer []assignment
	for path, value := range p.Values {
		layer = append(layer, assignment{key: path, text: fmt.Sprint(value), where: "master", source: p.Sources[path]})
	}
	l.add(layer)
	received, err := l.config()
	if err != nil {
		return fmt.Errorf("decode the configuration: %w", err)
	}
	*c = *received
	return nil
}
