package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"math"
	"slices"
)

// A ValueReader reads numbers, bytes and values one after the other, until something else stands there: from then on it
// is bad, and what its methods return means nothing.
type ValueReader struct {
	Rest []byte // what is not read yet
	Bad  bool
}

// ReadValue reads a value that [AppendValue] has appended.
func (r *ValueReader) ReadValue() driver.Value {
	if len(r.Rest) == 0 {
		r.Bad = true
		return nil
	}
	kind := r.Rest[0]
	r.Rest = r.Rest[1:]
	switch kind {
	case tapeNull:
		return nil
	case tapeInt:
		return r.ReadVarint()
	case tapeFloat:
		if len(r.Rest) >= 8 {
			f := math.Float64frombits(binary.LittleEndian.Uint64(r.Rest))
			r.Rest = r.Rest[8:]
			return f
		}
	case tapeText:
		return string(r.ReadBytes())
	case tapeBytes:
		return slices.Clone(r.ReadBytes())
	}
	r.Bad = true
	return nil
}

// ReadUvarint reads a number that encoding/binary has written.
func (r *ValueReader) ReadUvarint() uint64 {
	n, size := binary.Uvarint(r.Rest)
	return skipNumber(r, n, size)
}

// ReadVarint reads a number that encoding/binary has written.
func (r *ValueReader) ReadVarint() int64 {
	n, size := binary.Varint(r.Rest)
	return skipNumber(r, n, size)
}

func skipNumber[T int64 | uint64](r *ValueReader, n T, size int) T {
	if size <= 0 {
		r.Bad = true
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// ReadBytes reads bytes behind their length, a uvarint. They are those of Rest.
func (r *ValueReader) ReadBytes() []byte {
	n := r.ReadUvarint()
	if r.Bad || n > uint64(len(r.Rest)) {
		r.Bad = true
		return nil
	}
	out := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return out
}
