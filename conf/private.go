package conf

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// private is the wire form of a Config with its secrets. A reload may start children of a newer or older version than
// the master, so fields may only be added.
type private struct {
	Base     string              `json:"base"`
	File     string              `json:"file,omitempty"`
	Settings map[string][]string `json:"settings"`
	Sources  map[string]string   `json:"sources,omitempty"`
}

// MarshalPrivate returns the whole configuration as JSON, including secrets. It is for the pipe between the master and
// its children: do not log, store or serve it.
func (c *Config) MarshalPrivate() ([]byte, error) {
	l := c.loaded
	p := private{Base: c.abs(""), File: l.file, Settings: map[string][]string{}, Sources: l.sources}
	for _, path := range paths() {
		p.Settings[path] = []string{l.values.String(path)}
	}
	return json.Marshal(p)
}

// UnmarshalPrivate restores in c the configuration that MarshalPrivate wrote. A key that the master does not know has
// its default.
func (c *Config) UnmarshalPrivate(data []byte) error {
	var p private
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode the configuration: %w", err)
	}
	if len(p.Settings) == 0 {
		return errors.New("decode the configuration: it has no settings")
	}
	l := newLoader()
	l.base, l.file = p.Base, p.File
	var layer []assignment
	for _, path := range paths() {
		if texts, ok := p.Settings[path]; ok {
			text := strings.Join(texts, ",")
			layer = append(layer, assignment{key: path, text: text, where: "master", source: p.Sources[path]})
		}
	}
	l.add(layer)
	received, err := l.config()
	if err != nil {
		return fmt.Errorf("decode the configuration: %w", err)
	}
	*c = *received
	return nil
}
