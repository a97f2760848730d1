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
//
// Below it a value costs less where it stands than in a row of its own. It may be changed: what
// was written with another limit is read all the same, because the text says where a value is.
const InlineLimit = 1024

// hashLen is the length of a SHA-256 in hexadecimal digits.
const hashLen = 2 * sha256.Size

// valueDepth is how deep values in a journal may be nested. Inputs and results
// are bounded before they come here; merges and targets put them deeper.
//
// The bound is there because a text may come from a damaged file: it keeps the stack of the
// decoder small.
const valueDepth = 4096

// Values collects the values that are kept outside, each once. Its zero value
// is empty and ready.
//
// It belongs to one record: its entries are stored with the record. entries keeps the order of Add, which makes what is
// written the same each time; index finds a hash in it.
type Values struct {
	entries []entry
	index   map[string]int // by hash
}

// An entry is one value: the bytes are a copy that nobody else holds.
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
//
// With it a record is decoded right after it was encoded, without a file.
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
//
// Bytes has no bound here: whoever stored the value has bounded it.
func DecodeValue(raw []byte) (any, error) {
	return value.Decode(raw, value.Limits{Depth: valueDepth, Bytes: -1})
}
