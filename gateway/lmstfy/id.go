package lmstfy

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/oklog/ulid/v2"
)

// newID returns an id in lmstfy's form: a ULID of 48 bits of Unix milliseconds, 48 random bits, and the delay in
// seconds, little-endian.
func newID(now time.Time, delay time.Duration) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(now)) // fails after the year 10889
	_, _ = rand.Read(id[6:12])          // never fails
	binary.LittleEndian.PutUint32(id[12:], uint32(delay/time.Second))
	return id.String()
}

// withAttributes precedes the ULID in the id of a job with attributes.
const withAttributes = "1"

// elapsedMS returns the age of an id; 0 for an id that was not created here.
func elapsedMS(id string, now time.Time) int64 {
	if len(id) == ulid.EncodedSize+len(withAttributes) {
		id = id[len(withAttributes):]
	}
	made, err := ulid.ParseStrict(id)
	if err != nil {
		return 0
	}
	return max(0, now.UnixMilli()-int64(made.Time()))
}
