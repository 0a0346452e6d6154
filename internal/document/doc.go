// Package document reads files that people write: text with or without a byte-order mark, and YAML with several
// documents.
package document
