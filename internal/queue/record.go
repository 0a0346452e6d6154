package queue

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // a hash of ids, not a signature; the scripts have it as redis.sha1hex
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"time"
)

// longBody is the length above which a body has a key of its own, so that pages stay small.
const longBody = 1024

// indexBits is how many bits of a reference name the place in its page; see PAGE in lua/shared/base.lua.
const indexBits = 10

// Flags of a record, besides the priority in the two lowest bits.
const (
	flagBodyKey = 1 << 2 // the body is in b:REF
	flagLimits  = 1 << 3 // its own TTR (4 bytes, ms) and attempts (2 bytes)
	flagType    = 1 << 4 // its own content type, after one byte of length
	flagExtras  = 1 << 5 // its own expiry, waits and headers, see appendExtras
	flagsEnd    = 1 << 6 // all flags are below it
)

// locator maps (topic, id) to where the job's reference is: three bytes are the number of the small hash, eight the
// field in it.
type locator [11]byte

// locate computes a locator, as locator in lua/shared does.
func locate(topic, id string, locators uint32) (l locator) {
	text := make([]byte, 0, 128) // longer texts are copied to the heap
	text = append(append(append(text, topic...), 0), id...)
	sum := sha1.Sum(text) //nolint:gosec // see the import
	n := uint32(sum[0])<<16 | uint32(sum[1])<<8 | uint32(sum[2])
	n %= locators
	l[0], l[1], l[2] = byte(n>>16), byte(n>>8), byte(n)
	copy(l[3:], sum[3:11])
	return l
}

// address returns what the scripts find a job by.
func (s *Shard) address(topic, id string) []byte {
	l := locate(topic, id, s.locators)
	return l[:]
}

func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

func appendUint48(b []byte, v int64) []byte {
	return append(b, byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func uint48(s string) int64 {
	_ = s[5]
	return int64(s[0])<<40 | int64(s[1])<<32 | int64(s[2])<<24 | int64(s[3])<<16 | int64(s[4])<<8 | int64(s[5])
}

// appendTail appends the part of a record that follows its two times. It returns a long body instead of appending it.
func appendTail(b []byte, p *Push) (record, long []byte) {
	at := len(b)
	b = append(b, byte(p.Priority), byte(len(p.ID)))
	b = append(b, p.ID...)
	if p.TTR > 0 || p.MaxAttempts > 0 {
		b[at] |= flagLimits
		b = binary.BigEndian.AppendUint32(b, uint32(min(p.TTR.Milliseconds(), math.MaxUint32)))
		b = binary.BigEndian.AppendUint16(b, uint16(min(p.MaxAttempts, math.MaxUint16)))
	}
	if p.ContentType != "" {
		b[at] |= flagType
		b = append(append(b, byte(len(p.ContentType))), p.ContentType...)
	}
	if p.TTL > 0 || !p.ExpiresAt.IsZero() || len(p.Headers) > 0 || len(p.Retry) > 0 {
		b[at] |= flagExtras
		b = appendExtras(b, p)
	}
	if len(p.Body) > longBody {
		b[at] |= flagBodyKey
		return b, p.Body
	}
	return append(b, p.Body...), nil
}

// push returns a push that stores the job as it is, apart from its times.
func (j *Job) push() *Push {
	return &Push{
		Topic: j.Topic, ID: j.ID, Body: j.Body, ContentType: j.ContentType, Priority: j.Priority, TTR: j.TTR,
		MaxAttempts: j.MaxAttempts, ExpiresAt: j.ExpiresAt, Headers: j.Headers, Retry: j.Retry,
	}
}

// MaxWaits is the most waits between attempts in Push.Retry.
const MaxWaits = 50

// appendExtras appends the extras of a record, in the form that extrasAt in lua/shared reads.
func appendExtras(b []byte, p *Push) []byte {
	at := len(b)
	expiry := p.TTL.Milliseconds()
	if p.TTL <= 0 && !p.ExpiresAt.IsZero() {
		expiry = max(1, p.ExpiresAt.UnixMilli())
	}
	b = appendUint48(append(b, 0, 0), expiry)
	waits := p.Retry[:min(len(p.Retry), MaxWaits)]
	b = append(b, byte(len(waits)))
	for _, d := range waits {
		b = binary.BigEndian.AppendUint32(b, uint32(min(max(ceilDelay(d), 0), math.MaxUint32)))
	}
	if len(p.Headers) > 0 {
		headers, _ := json.Marshal(p.Headers) // a map of texts: cannot fail
		b = append(b, headers...)
	}
	binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	return b
}

// decodeExtras decodes what appendExtras wrote, and returns the rest.
func decodeExtras(j *Job, rest string) (string, error) {
	if len(rest) < 9 {
		return "", errRecord
	}
	end := 2 + int(binary.BigEndian.Uint16([]byte(rest[:2])))
	waits := int(rest[8])
	if len(rest) < end || end < 9+4*waits {
		return "", errRecord
	}
	if expiry := uint48(rest[2:]); expiry > 0 {
		j.ExpiresAt = time.UnixMilli(expiry).UTC()
	}
	for at := 9; at < 9+4*waits; at += 4 {
		ms := binary.BigEndian.Uint32([]byte(rest[at : at+4]))
		j.Retry = append(j.Retry, time.Duration(ms)*time.Millisecond)
	}
	if headers := rest[9+4*waits : end]; headers != "" {
		if err := json.Unmarshal([]byte(headers), &j.Headers); err != nil {
			return "", errRecord
		}
	}
	return rest[end:], nil
}

var errRecord = errors.New("the stored record cannot be decoded")

// decodeRecord decodes a record into j. body is the value of its body key.
func decodeRecord(j *Job, rec, body string) error {
	if len(rec) < 14 {
		return errRecord
	}
	flags, n := rec[12], int(rec[13])
	if len(rec) < 14+n || flags >= flagsEnd {
		return errRecord
	}
	j.DueAt = time.UnixMilli(uint48(rec)).UTC()
	j.CreatedAt = time.UnixMilli(uint48(rec[6:])).UTC()
	j.Priority = Priority(flags & 3)
	j.ID = rec[14 : 14+n]
	rest := rec[14+n:]
	if flags&flagLimits != 0 {
		if len(rest) < 6 {
			return errRecord
		}
		j.TTR = time.Duration(binary.BigEndian.Uint32([]byte(rest[:4]))) * time.Millisecond
		j.MaxAttempts = int(binary.BigEndian.Uint16([]byte(rest[4:6])))
		rest = rest[6:]
	}
	if flags&flagType != 0 {
		if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
			return errRecord
		}
		j.ContentType = rest[1 : 1+int(rest[0])]
		rest = rest[1+int(rest[0]):]
	}
	if flags&flagExtras != 0 {
		var err error
		if rest, err = decodeExtras(j, rest); err != nil {
			return err
		}
	}
	if flags&flagBodyKey != 0 {
		rest = body
	}
	j.Body = []byte(rest)
	return nil
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID makes an id of 26 characters. The first ten order ids by the time they were made.
func NewID() string {
	var b [16]byte
	ms := time.Now().UnixMilli()
	appendUint48(b[:0], ms)
	_, _ = rand.Read(b[6:]) // never fails (crypto/rand)
	return idEncoding.EncodeToString(b[:])
}
