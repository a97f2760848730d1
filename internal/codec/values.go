package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"reflect"
	"slices"

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
	index   map[string]int      // by hash
	objects map[identity]string // hashes of those that are in memory as the record is encoded
	known   identity            // of the one whose text is known
	text    value.Text
}

// An identity tells maps, lists and large texts in memory from each other.
type identity struct {
	at     uintptr
	length int
}

// identityOf returns the identity of a map, a list, or a text that does not stand inline; ok is false for anything else.
func identityOf(v reflect.Value) (id identity, ok bool) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return identity{v.Pointer(), v.Len()}, true
	case reflect.String:
		return identity{v.Pointer(), v.Len()}, v.Len() > InlineLimit
	default:
		return identity{}, false
	}
}

// addObject is Add for the encoding of v, which is the same memory wherever a record has it: the result in a message
// is that in a decision. hashOf finds it there. A value that is handed over is kept without a copy if it is new, which kept says.
func (vs *Values) addObject(v reflect.Value, raw []byte, handedOver bool) (hash string, kept bool) {
	hash, kept = vs.keepBytes(raw, "", handedOver)
	if id, ok := identityOf(v); ok {
		vs.rememberObject(id, hash)
	}
	return hash, kept
}

func (vs *Values) rememberObject(id identity, hash string) {
	if vs.objects == nil {
		vs.objects = map[identity]string{}
	}
	vs.objects[id] = hash
}

// Know tells the text of a value which the record has, so that it is not encoded again. Where that is so short that the value stands
// inline, nothing is known: the text would be copied all the same.
func (vs *Values) Know(v any, text value.Text) {
	if len(text.JSON) <= InlineLimit {
		return
	}
	if id, ok := identityOf(reflect.ValueOf(v)); ok {
		vs.known, vs.text = id, text
	}
}

// hashOf returns the hash of a value that was added as an object already, or whose text is known, which is added now. It is "" for any other.
func (vs *Values) hashOf(v reflect.Value) string {
	if len(vs.objects) == 0 && vs.text.JSON == nil {
		return ""
	}
	id, ok := identityOf(v)
	if !ok {
		return ""
	}
	hash := vs.objects[id]
	if hash == "" && vs.text.JSON != nil && id == vs.known {
		hash, _ = vs.keepBytes(vs.text.JSON, vs.text.Hash, true)
		vs.rememberObject(id, hash)
	}
	return hash
}

// Settle ends the encoding of a record: values that are added from now on may lie where others have been.
func (vs *Values) Settle() { vs.objects, vs.text = nil, value.Text{} }

// An entry is one value: its bytes are nobody else's.
type entry struct {
	hash string
	raw  []byte
}

// Add keeps a copy of raw, the canonical JSON of a value, unless it is there
// already, and returns its SHA-256 in lower-case hexadecimal digits.
func (vs *Values) Add(raw []byte) (hash string) {
	hash, _ = vs.keepBytes(raw, "", false)
	return hash
}

// keepBytes keeps raw, whose hash may be known.
func (vs *Values) keepBytes(raw []byte, known string, handedOver bool) (hash string, kept bool) {
	if hash = known; hash == "" {
		sum := pace.Sum256(raw)
		hash = hex.EncodeToString(sum[:])
	}
	if _, known := vs.index[hash]; known {
		return hash, false
	}
	if vs.index == nil {
		vs.index = map[string]int{}
	}
	vs.index[hash] = len(vs.entries)
	if !handedOver {
		raw = pace.Append([]byte(nil), raw...)
	}
	vs.entries = append(vs.entries, entry{hash, slices.Clip(raw)})
	return hash, handedOver
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
