// Package seal puts a codec between values and the disk. A sealed value names its key, and can
// be told from a value that is not sealed.
package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/pawl-run/pawl/internal/shown"
)

// A Codec stands between values and the disk: it encrypts them, or compresses them, or
// both. It must lose nothing, so that Decode returns what Encode was given: runs are replayed
// from the stored values. A secret that must never be stored cannot be redacted here and does
// not belong into a value; give a reference to it instead. Its methods are called by many
// goroutines at once. They neither change nor keep what they are given.
//
// A place names the encoded value and its run. It is the same text for Encode and for
// Decode; a codec that authenticates binds the bytes to it, so that a value of one run
// cannot be put into another. Places hold no values, but ids of runs and keys of outcomes.
type Codec interface {
	// KeyID names the key that Encode uses: 1 to 64 letters, digits, dots, hyphens and
	// underscores. It is stored in clear with everything that Encode returns, and does not
	// change while an engine has the codec.
	KeyID() string
	// Encode returns what is stored in place of plain. If it fails, so does what was to be
	// stored, as with a disk that fails: a run is loaded again and goes on later.
	Encode(place string, plain []byte) (stored []byte, err error)
	// Decode returns what Encode was given, under whichever key it was stored. It fails if it
	// lacks the key, or if stored is not what Encode returned for this place.
	Decode(keyID, place string, stored []byte) (plain []byte, err error)
}

// ErrSealed says that a value was stored by a codec and cannot be read: there is no codec, it
// lacks the key, or the bytes are not of this place. It is always an *Error.
var ErrSealed = errors.New("sealed")

// An Error names a value that is sealed and cannot be read. Nothing is lost: it can be
// read again as soon as Options.Codec, or the key file, has the key.
type Error struct {
	KeyID string // of the key that it needs
	Place string // the name of the value, and of its run
	Err   error  // why the codec cannot read it; nil if there is no codec
}

// Error names the key, the value and the cause.
func (e *Error) Error() string {
	text := fmt.Sprintf("sealed with the key %q: %s", e.KeyID, e.Place)
	if e.Err == nil {
		return text + ": there is no codec: set Options.Codec, or give the key file"
	}
	return text + ": " + e.Err.Error()
}

// As gives errors.As this error as the type with the same fields that package pawl shows.
func (e *Error) As(target any) bool { return shown.As(e, target) }

// Is reports whether target is ErrSealed.
func (e *Error) Is(target error) bool { return target == ErrSealed }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A Sealer seals values with a codec, and opens them. The zero value has no codec: it
// leaves values as they are, and opens none that is sealed.
type Sealer struct {
	codec Codec
	watch *Watch // nil if nobody watches
}

// A Watch notes what a Sealer of one goroutine opens: with a key that has opened anything,
// whatever cannot be opened is damaged.
type Watch struct {
	opened map[string]bool // by the id of the key
	failed map[string]*Error
}

// Opened reports whether a key has opened anything.
func (w *Watch) Opened(keyID string) bool { return w.opened[keyID] }

// Missing returns, by the ids of their keys, one of the values that could not be opened, of
// keys that have opened none.
func (w *Watch) Missing() map[string]*Error {
	out := maps.Clone(w.failed)
	maps.DeleteFunc(out, func(keyID string, _ *Error) bool { return w.opened[keyID] })
	return out
}

// Watched returns a Sealer that tells w what it opens.
func (s Sealer) Watched(w *Watch) Sealer {
	w.opened, w.failed = map[string]bool{}, map[string]*Error{}
	return Sealer{s.codec, w}
}

// NewSealer returns a Sealer with a codec, which may be nil. It fails if the codec's key has
// no proper id.
func NewSealer(c Codec) (Sealer, error) {
	if c != nil && !IsKeyID(c.KeyID()) {
		return Sealer{}, fmt.Errorf("the codec's key id %q is not 1 to %d letters, digits, dots, hyphens or underscores", c.KeyID(), maxKeyID)
	}
	return Sealer{codec: c}, nil
}

const maxKeyID = 64

// IsKeyID reports whether a text can name a key.
func IsKeyID(id string) bool {
	for i := range len(id) {
		if c := id[i] | 0x20; (c < 'a' || c > 'z') && (id[i] < '0' || id[i] > '9') && !strings.ContainsRune(".-_", rune(id[i])) {
			return false
		}
	}
	return id != "" && len(id) <= maxKeyID
}

// IsOn reports whether values are sealed.
func (s Sealer) IsOn() bool { return s.codec != nil }

// KeyID returns the id of the key that seals, "" without one.
func (s Sealer) KeyID() string {
	if s.codec == nil {
		return ""
	}
	return s.codec.KeyID()
}

// mark is the first byte of what is sealed. No JSON, hash or SQLite file begins with it.
const mark = '\x01'

// IsSealed reports whether a text was sealed. It must be one that does not begin with a
// control character otherwise, as JSON.
func IsSealed[T string | []byte](text T) bool { return len(text) > 0 && text[0] == mark }

// SealText returns a text that stands for plain, and contains nothing of it. Without a
// codec it is plain.
func (s Sealer) SealText(place, plain string) (string, error) {
	if s.codec == nil {
		return plain, nil
	}
	stored, err := s.codec.Encode(place, []byte(plain))
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", place, err)
	}
	id := s.codec.KeyID()
	text := make([]byte, 0, 2+len(id)+base64.RawStdEncoding.EncodedLen(len(stored)))
	text = append(append(append(text, mark), id...), ':')
	return string(base64.RawStdEncoding.AppendEncode(text, stored)), nil
}

// OpenText returns the text that SealText was given; one that was not sealed is returned
// as it is. It fails with an *Error.
func (s Sealer) OpenText(place, text string) (string, error) {
	if !IsSealed(text) {
		return text, nil
	}
	id, encoded, _ := strings.Cut(text[1:], ":")
	stored, err := base64.RawStdEncoding.DecodeString(encoded)
	if err == nil {
		stored, err = s.openBytes(id, place, stored)
	}
	return string(stored), s.sealedError(id, place, err)
}

// KeyOf returns the id of the key that a text was sealed with, "" if it was not.
func KeyOf(text string) string {
	if !IsSealed(text) {
		return ""
	}
	id, _, _ := strings.Cut(text[1:], ":")
	return id
}

// errNoCodec says that there is no codec.
var errNoCodec = errors.New("no codec")

func (s Sealer) openBytes(id, place string, stored []byte) ([]byte, error) {
	if s.codec == nil {
		return nil, errNoCodec
	}
	plain, err := s.codec.Decode(id, place, stored)
	if s.watch != nil && err == nil {
		s.watch.opened[id] = true
	}
	return plain, err
}

// sealedError returns an error of openBytes as an *Error.
func (s Sealer) sealedError(id, place string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoCodec):
		err = nil
	}
	e := &Error{KeyID: id, Place: place, Err: err}
	if s.watch != nil && s.watch.failed[id] == nil {
		s.watch.failed[id] = e
	}
	return e
}
