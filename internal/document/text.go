package document

import (
	"bytes"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Text returns a file's text as UTF-8 without a byte-order mark, which says that it is UTF-16 or UTF-8.
func Text(data []byte) []byte {
	text, _, err := transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), data)
	if err != nil { // invalid after its mark: the reader of the text says where
		return bytes.TrimPrefix(data, []byte("\ufeff"))
	}
	return text
}
