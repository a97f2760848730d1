package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/value"
)

// InlineLimit is the size in bytes above which the canonical JSON of a value
// is kept outside.
const InlineLimit = 1024

// hashLen is the length of a SHA-256 in hexadecimal digits.
const hashLen = 2 * sha256.Size

// valueDepth is how deep values in a journal may be nested. Inputs and results
// are bounded before they come here; merges and targets put them deeper.
const valueDepth = 4096

// Values collects the values that are kept outside, each once. Its zero value
// is empty and ready.
type Values struct {
	entries []entry
	index   map[string]int // by hash
}

type entry struct {
	hash string
	raw  []byte
}

// Add keeps a copy of raw, the canonical JSON of a value, unless it is there
// already, and returns its SHA-256 in lower-case hexadecimal digits.
func (vs *Values) Add(raw []byte) (hash string) {
	sum := pace.Sum256(raw)
	hash = hex.EncodeToString(sum[:])
	if _, known := vs.index[hash]; known {
		return hash
	}
	if vs.index == nil {
		vs.index = map[string]int{}
	}
	vs.index[hash] = len(vs.entries)
	vs.entries = append(vs.entries, entry{hash, pace.Append([]byte(nil), raw...)})
	return hash
}

// Len returns how many values there are.
func (vs *Values) Len() int { return len(vs.entries) }

// All yields hashes and canonical JSON in the order of their first Add. The
// bytes must not be changed.
func (vs *Values) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, e := range vs.entries {
			if !yield(e.hash, e.raw) {
				return
			}
		}
	}
}

// Lookup decodes the value with this hash. It is a [Lookup].
func (vs *Values) Lookup(hash string) (any, error) {
	i, ok := vs.index[hash]
	if !ok {
		return nil, fmt.Errorf("no value with the hash %s", hash)
	}
	return DecodeValue(vs.entries[i].raw)
}

// A Lookup returns the decoded value with a hash. It may return one value many
// times: values are never modified.
type Lookup func(hash string) (any, error)

// DecodeValue decodes a value that was kept outside, with the limits that the
// codec itself uses. The error is a *value.Error.
func DecodeValue(raw []byte) (any, error) {
	return value.Decode(raw, value.Limits{Depth: valueDepth, Bytes: -1})
}
