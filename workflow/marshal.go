package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pawl-run/pawl/internal/value"
)

// MarshalJSON returns d in the format that [ParseJSON] reads: canonical JSON of the fields that do not have their
// default. It fails if a schema, a value or a text in d has no JSON form. Keys are sorted and defaults are
// left out, so that equal definitions give equal bytes.
func (d Definition) MarshalJSON() ([]byte, error) {
	v, err := value.Normalize(writeFields(definitionFormat(&d)), value.Limits{})
	if err != nil {
		return nil, fmt.Errorf("definition %q as JSON: %w", d.Name, err)
	}
	return value.Encode(v), nil
}

// Hash returns the SHA-256 of the canonical JSON of d, in hexadecimal. An explicit default does not change
// it, except unmatched: end, which answers a warning. A published name and version stand for one hash, and
// definitions with the same hash are the same.
func (d *Definition) Hash() (string, error) {
	data, err := d.completed().MarshalJSON()
	if err != nil {
		return "", err
	}
	return hashOf(data), nil
}

// hashOf returns the hash of canonical JSON.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
