package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/url"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the bill of materials. It contains neither a time nor a serial number, so equal binaries have equal
// bills.
func (b *binary) writeSBOM(out io.Writer) error {
	own := component(b.main, cdx.ComponentTypeApplication)
	own.Licenses = licences("Apache-2.0")
	std := module{Path: "std", Version: strings.TrimPrefix(b.goVersion, "go"), Licences: []string{"BSD-3-Clause"}}
	var list []cdx.Component
	var refs []string
	for _, m := range append([]module{std}, b.modules...) {
		c := component(m, cdx.ComponentTypeLibrary)
		list, refs = append(list, c), append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &own}
	bom.Components = &list
	bom.Dependencies = &[]cdx.Dependency{{Ref: own.BOMRef, Dependencies: &refs}}
	e := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	return e.EncodeVersion(bom, cdx.SpecVersion1_6)
}

func component(m module, kind cdx.ComponentType) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	c := cdx.Component{Type: kind, BOMRef: purl, Name: m.Path, Version: m.Version, PackageURL: purl}
	c.Licenses = licences(m.Licences...)
	// A module's sum (h1:) is the SHA-256 of the sums of its files, as in go.sum, not of an archive.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
	}
	return c
}

func licences(ids ...string) *cdx.Licenses {
	var list cdx.Licenses
	for _, id := range ids {
		list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &list
}
