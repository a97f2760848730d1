package blob

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"strconv"

	"github.com/pawl-run/pawl/internal/seal"
)

// A reader hands out a blob and checks it at its end.
type reader struct {
	file    *os.File
	content io.Reader // of the file, opened if it is sealed
	a       address
	sum     hash.Hash
	size    int64 // that was read
}

func newReader(file *os.File, sealed *seal.Reader, a address) *reader {
	r := &reader{file: file, content: file, a: a, sum: sha256.New()}
	if sealed != nil {
		r.content = sealed
	}
	return r
}

// Read returns the next bytes; at the end io.EOF if all of them were right.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.content.Read(p)
	_, _ = r.sum.Write(p[:n]) // it never fails
	r.size += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		err = r.checkHash()
	case errors.Is(err, seal.ErrChanged):
		err = &Error{Hash: r.a.fullHash(), Err: ErrDamaged, Detail: err.Error()}
	case err != nil:
		err = wrapError(r.a.fullHash(), "read", err)
	}
	return n, err
}

func (r *reader) checkHash() error {
	sum := r.sum.Sum(nil)
	if addressOf(sum) == r.a {
		return io.EOF
	}
	if err := checkUnopened(r.file); err != nil {
		return wrapError(r.a.fullHash(), "read", err)
	}
	return &Error{
		Hash:   r.a.fullHash(),
		Err:    ErrDamaged,
		Detail: "its " + strconv.FormatInt(r.size, 10) + " bytes have the hash " + addressOf(sum).fullHash(),
	}
}

// Close closes the file. Content that was not read to its end was not checked.
func (r *reader) Close() error { return wrapError(r.a.fullHash(), "close", r.file.Close()) }
