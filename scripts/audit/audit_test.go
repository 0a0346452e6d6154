package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestLicencesAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"MIT License\n\nPermission is hereby granted, free of charge,\nto any person obtaining a copy": "MIT",
		"Apache License\n  Version 2.0, January 2004":                                                  "Apache-2.0",
		"Redistribution and use in source and binary forms ... Neither the name of":                    "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with or without":                           "BSD-2-Clause",
		"GNU GENERAL PUBLIC LICENSE\nVersion 3":                                                        "GPL",
		"Mozilla Public License, version 2.0 ... Covered Software ... the GNU General Public License":  "MPL-2.0",
		"All rights reserved.": "",
	} {
		if got := licence(text); got != want {
			t.Errorf("%q is taken for %q, want %q", text, got, want)
		}
	}
}

func TestWhatNobodyAllowedFails(t *testing.T) {
	for _, licences := range [][]string{nil, {"GPL"}, {"MIT", "AGPL-3.0"}} {
		b := &binary{modules: []module{{Path: "example.com/m", Version: "v1.0.0", Licences: licences}}}
		if err := b.judge(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "example.com/m v1.0.0") {
			t.Errorf("%v: %v", licences, err)
		}
	}
}

// TestABinaryTellsWhatIsInIt, using this test's own binary: it has the modules' paths and sums like any other.
func TestABinaryTellsWhatIsInIt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := read(self)
	if err != nil {
		t.Fatal(err)
	}
	b.modules = append(b.modules, module{
		Path: "example.com/m", Version: "v1.2.3", Sum: "h1:crnVqOiS4jqYleHd9vaKZ+HKtHfllngJIiOpNpoJsjo=",
		Licences: []string{"MIT"},
	})
	var bill, text bytes.Buffer
	if err := b.writeSBOM(&bill); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&text, bill.Bytes()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"specVersion":"1.6"`, `"pkg:golang/example.com/m@v1.2.3"`, `"alg":"SHA-256"`, `"pkg:golang/std@`,
		`{"license":{"id":"MIT"}}`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the bill lacks %s:\n%s", want, text.String())
		}
	}
}
