package harness

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/oklog/ulid/v2"
)

// LmstfyID returns an id like those that lmstfy gives to jobs.
func LmstfyID(delay time.Duration) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Now()) // fails only after the year 10889
	_, _ = rand.Read(id[6:12]) // never fails
	binary.LittleEndian.PutUint32(id[12:], uint32(delay/time.Second))
	return id.String()
}
