package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// words are texts that identify a licence, in search order: longer licences quote shorter ones.
var words = []struct{ id, text string }{
	{"AGPL-3.0", "gnu affero general public license"},
	{"LGPL", "gnu lesser general public license"},
	{"GPL", "gnu general public license"},
	{"SSPL-1.0", "server side public license"},
	{"BUSL-1.1", "business source license"},
	{"EPL", "eclipse public license"},
	{"MPL-2.0", "mozilla public license, version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"Apache-2.0", "apache license version 2.0"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
	{"blessing", "may you do good and not evil"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
}

// secondary finds the MPL, which names the GPL as a secondary licence.
var secondary = regexp.MustCompile(`(?s)mozilla public license,? version 2\.0.*`)

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`)

// licencesIn identifies the licences in a module's top folder. Every licence file counts.
func licencesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find a licence: %w", err)
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasPrefix(e.Name(), "LICENSE-LOGO") {
			continue // a logo is not in the binary
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if l := licence(string(b)); l != "" && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	slices.Sort(found)
	return found, nil
}

// licence identifies the licence of a text; empty: unknown.
func licence(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if secondary.MatchString(text) && strings.Contains(text, "covered software") {
		return "MPL-2.0"
	}
	for _, w := range words {
		if strings.Contains(text, w.text) {
			return w.id
		}
	}
	if !strings.Contains(text, "redistribution and use in source and binary forms") {
		return ""
	}
	if strings.Contains(text, "neither the name") || strings.Contains(text, "endorse or promote") {
		return "BSD-3-Clause"
	}
	return "BSD-2-Clause"
}
