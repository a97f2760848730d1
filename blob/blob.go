package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"
)

// Info is what a Store knows of a blob without reading it.
type Info struct {
	Hash string
	Size int64     // in bytes
	Time time.Time // when Put last gave it its name
}

// A Store keeps blobs. Its methods may be called by many goroutines. Their
// errors are of type *Error, except those of the context and of the reader
// that Put reads from. An invalid hash is an *Error with fs.ErrInvalid.
type Store interface {
	// Put reads r to its end and keeps what it read. When it returns without
	// an error, the blob survives a crash and a loss of power. Equal contents
	// are kept once: to put one again gives it a new Info.Time, and repairs
	// it if it was damaged. After an error nothing of r is kept, or all of it
	// without the promise of durability. Put ends early when ctx does, between
	// two reads.
	Put(ctx context.Context, r io.Reader) (hash string, size int64, err error)
	// Open returns the content, or an *Error with ErrMissing. Reading to the
	// end checks it: if it is not what was put, the last Read returns an *Error
	// with ErrDamaged in place of io.EOF. The caller closes it. ctx does not
	// concern the reading.
	Open(ctx context.Context, hash string) (io.ReadCloser, error)
	// Stat returns what is known of a blob without reading it, or an *Error
	// with ErrMissing.
	Stat(ctx context.Context, hash string) (Info, error)
	// Delete removes a blob unless it was put at or after before, and reports
	// whether it did; no Put of the same bytes comes between the two. A missing
	// blob is false without an error. A removal need not survive a loss of
	// power; then the blob is back, whole.
	Delete(ctx context.Context, hash string, before time.Time) (bool, error)
	// All iterates over all blobs in the order of their hashes. Blobs that are
	// put or deleted meanwhile may be in it or not. A blob that cannot be
	// examined is yielded as an error with as much of its Info as is known, and
	// the iteration goes on if the caller does. When ctx ends, All yields its
	// error and ends.
	All(ctx context.Context) iter.Seq2[Info, error]
}

// Conditions that callers test with errors.Is.
var (
	// ErrMissing says that the Store has no such blob.
	ErrMissing = errors.New("missing")
	// ErrDamaged says that the kept content is not what was put. To put the same
	// bytes again, or to restore the file from a backup, repairs it.
	ErrDamaged = errors.New("damaged")
	// ErrSize says that a reference gives another size than the blob has. Send the
	// reference as Put gave it.
	ErrSize = errors.New("another size")
)

// An Error says what is wrong with a blob, or with the Store of blobs.
type Error struct {
	Hash   string // "" while it is unknown, as in Put, or if the error is of the whole Store
	Err    error  // ErrMissing, ErrDamaged, ErrSize, or what the system says
	Detail string // what was being done, such as "put", or what is wrong; or ""
}

// Error names the blob and what is wrong with it.
func (e *Error) Error() string {
	text := "blob"
	if e.Hash != "" {
		text += " " + e.Hash
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text + ": " + fmt.Sprint(e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// wrapError makes an *Error of err, unless it is nil or one already; that gets the
// hash if it has none.
func wrapError(hash, detail string, err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return &Error{Hash: hash, Err: err, Detail: detail}
	case e.Hash == "":
		e.Hash = hash
	}
	return err
}

const scheme = "sha256:"

// An address is a hash that is well formed: 64 lower-case hexadecimal digits.
type address string

// parseAddress returns the address that hash stands for, and whether it is one.
func parseAddress(hash string) (address, bool) {
	digits, ok := strings.CutPrefix(hash, scheme)
	return address(digits), ok && len(digits) == 2*sha256.Size && isLowerHex(digits)
}

func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// checkAddress returns the address that hash stands for, or an *Error.
func checkAddress(hash string) (address, error) {
	a, ok := parseAddress(hash)
	if !ok {
		return "", &Error{Hash: hash, Err: fs.ErrInvalid, Detail: "not sha256: and 64 lower-case hexadecimal digits"}
	}
	return a, nil
}

func addressOf(sum []byte) address { return address(hex.EncodeToString(sum)) }

func (a address) fullHash() string { return scheme + string(a) }

// folderNumber returns the number that names the folder of the address.
func (a address) folderNumber() byte {
	b, err := hex.DecodeString(a.folderName())
	if err != nil {
		panic("blob: no address: " + string(a))
	}
	return b[0]
}

func (a address) folderName() string { return string(a[:2]) }
func (a address) filePath() string   { return string(a[:2]) + "/" + string(a[2:]) }
