package calendar

import (
	"archive/zip"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
)

//go:embed zones/zoneinfo.zip
var zoneinfo string

//go:embed zones/release
var release string

// ZoneData returns the release of the IANA time zone database that is in the binary, such as "2025c".
func ZoneData() string { return strings.TrimSpace(release) }

// zones has the zones that were used, by name, so that thousands of rules share one.
var zones sync.Map

var archive = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
})

// Zone returns a time zone by its IANA name; "" is UTC. "Local" is no zone, because each host has its own.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	files, err := archive()
	if err != nil {
		return nil, fmt.Errorf("read the time zones: %w", err)
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q: write an IANA name such as Europe/Berlin, or UTC", name)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("read time zone %s: %w", name, err)
	}
	shared, _ := zones.LoadOrStore(name, zone)
	return shared.(*time.Location), nil
}
