package queue

import "encoding/binary"

// To a job that was pushed without an id, earlier versions gave one that names the place of its record: "p" and 20
// characters of base32 of the place (7 bytes) and a nonce. The record has the nonce in place of the id, and no locator
// leads to it. Such jobs are no longer created, but are still found, changed, delivered and deleted. A change, a move
// or a restore stores them with their id and a locator like all others. Callers may choose ids of that form too, so the
// scripts check the record that they find at a place, and otherwise look for a locator (find in lua/shared).
const (
	nonceLen  = 5
	placeMark = 'p'
	placeLen  = 21
	indexBits = 10 // of a place; see PAGE in lua/shared/base.lua
)

// isNonce reports whether a record has a nonce in place of its id. No id begins with such a byte, since ids are UTF-8.
func isNonce(id string) bool { return len(id) == nonceLen && id[0]&0xc0 == 0x80 }

// placeID returns the id of the job at a place.
func placeID(ref int64, nonce string) string {
	var b [8 + nonceLen]byte
	binary.BigEndian.PutUint64(b[:], uint64(ref)>>2) // without the priority
	copy(b[8:], nonce)
	var text [placeLen]byte
	text[0] = placeMark
	idEncoding.Encode(text[1:], b[1:])
	return string(text[:])
}

// givenID returns the id that clients know for a job whose record has id.
func givenID(ref int64, id string) string {
	if isNonce(id) {
		return placeID(ref, id)
	}
	return id
}

// appendPlace appends the place that an id names, if any: page (6 bytes), index (2) and nonce.
func appendPlace(to []byte, id string) []byte {
	if len(id) != placeLen || id[0] != placeMark {
		return to
	}
	var b [8 + nonceLen]byte
	if n, err := idEncoding.Decode(b[1:], []byte(id[1:])); err != nil || n != len(b)-1 {
		return to
	}
	place, nonce := binary.BigEndian.Uint64(b[:]), string(b[8:])
	page, index := place>>indexBits, place&(1<<indexBits-1)
	if page == 0 || page >= 1<<41 || index == 0 || !isNonce(nonce) || placeID(int64(place)<<2, nonce) != id {
		return to
	}
	to = appendUint48(to, int64(page))
	return append(binary.BigEndian.AppendUint16(to, uint16(index)), nonce...)
}

// address returns what the scripts find a job by: its locator, and the place that its id names, if any.
func (s *Shard) address(topic, id string) []byte {
	l := locate(topic, id, s.locators)
	return appendPlace(append(make([]byte, 0, len(l)+13), l[:]...), id)
}
