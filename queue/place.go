package queue

import "encoding/binary"

// A job that is pushed without an id, and is not near, gets one that names the place of its record, so that Redis stores neither a locator for
// it nor the id: the record has a nonce instead, which was made at random by the pushing process. The nonce tells the job from any other that ever
// has the same place: in another shard, or in one that lost its data and counts its pages anew. Such an id lives as long as its job; a job
// that is changed, moved to another shard or brought back from a journal has its id in its record, and a locator, like those that callers chose.
//
// In the record the nonce stands where the id would, and begins with a byte that no id begins with, since ids are UTF-8. So the format is the
// one that every version reads, and a version that does not know such ids delivers the job, when it is due and with its body, retries and
// buries it, under the nonce as its id; it only finds nothing under the id that was given out. A record of a newer format, which it would put
// off, has to have a locator, or it would be buried as damaged.
const (
	nonceLen  = 5
	placeMark = 'p' // an id that names a place: this, and 20 characters of base32 of the place (7 bytes) and the nonce
	placeLen  = 21
	indexBits = 10 // of a place; see PAGE in common.lua
)

// isNonce says whether what stands in a record in place of the id is a nonce.
func isNonce(id string) bool { return len(id) == nonceLen && id[0]&0xc0 == 0x80 }

// nonceOf is the nonce of a push whose id was just made by NewID: its last random bytes.
func nonceOf(p *Push) (nonce [nonceLen]byte, ok bool) {
	if !p.Fresh || len(p.ID) != madeLen {
		return nonce, false
	}
	var b [16]byte
	if n, err := idEncoding.Decode(b[:], []byte(p.ID)); err != nil || n != len(b) {
		return nonce, false
	}
	copy(nonce[:], b[len(b)-nonceLen:])
	nonce[0] = nonce[0]&0x3f | 0x80
	return nonce, true
}

// placeID is the id of the job at a place.
func placeID(ref int64, nonce string) string {
	var b [8 + nonceLen]byte
	binary.BigEndian.PutUint64(b[:], uint64(ref)>>2) // without the priority
	copy(b[8:], nonce)
	var text [placeLen]byte
	text[0] = placeMark
	idEncoding.Encode(text[1:], b[1:])
	return string(text[:])
}

// appendPlace adds, as the scripts read it, the place that an id names, if it names one: page (6 bytes), index (2) and nonce. Callers may choose
// ids of that form, too, so what is found there must be compared, and looked for by the locator otherwise.
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

// address is what the scripts find a job by: its locator, and the place that its id names, if it names one.
func (s *Shard) address(topic, id string) []byte {
	l := locate(topic, id, s.locators)
	return appendPlace(append(make([]byte, 0, len(l)+13), l[:]...), id)
}
