package main

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// The parts of CycloneDX 1.6 that a Go binary has something to say about. Neither time nor serial number: the same binary has the same bill.
type bill struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Licences   []licensed `json:"licenses,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type licensed struct {
	Licence struct {
		ID string `json:"id"`
	} `json:"license"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func (b *binary) bill() bill {
	own := b.main.component("application")
	own.Licences = licences([]string{"Apache-2.0"})
	std := module{Path: "std", Version: strings.TrimPrefix(b.goVersion, "go"), Licences: []string{"BSD-3-Clause"}}
	list := []component{std.component("library")}
	for _, m := range b.modules {
		list = append(list, m.component("library"))
	}
	needs := dependency{Ref: own.Ref}
	for _, c := range list {
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	return bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{own}, Components: list, Dependencies: []dependency{needs}}
}

func (m *module) component(kind string) component {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	c := component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, PURL: purl, Licences: licences(m.Licences)}
	// A module's sum (h1:) is the SHA-256 of its files' sums, as go.sum has it, not of an archive.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		c.Properties = []property{{"go.sum", m.Sum}}
	}
	return c
}

func licences(ids []string) []licensed {
	list := make([]licensed, len(ids))
	for i, id := range ids {
		list[i].Licence.ID = id
	}
	return list
}
