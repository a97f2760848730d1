package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
)

// PackEntry joins the message, the decisions and the large values of a record, each
// after its length.
func PackEntry(e *runfile.Entry) []byte {
	out := make([]byte, 0, int(e.ByteSize())+16)
	for text := range textsOf(e) {
		out = pace.Append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return out
}

// textsOf returns the message, the decisions and the large values of a record.
func textsOf(e *runfile.Entry) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(e.Message) || !yield(e.Decisions) {
			return
		}
		for _, raw := range e.Values.All() {
			if !yield(raw) {
				return
			}
		}
	}
}

// UnpackEntry is the inverse of PackEntry.
func UnpackEntry(e *runfile.Entry, data []byte) (err error) {
	for _, b := range []*[]byte{&e.Message, &e.Decisions} {
		if *b, data, err = cutLength(data); err != nil {
			return err
		}
		*b = bytes.Clone(*b) // or it would keep the large values, which are copied
	}
	e.Values, err = UnpackValues(data)
	return err
}

// cutLength cuts bytes off that stand after their length.
func cutLength(data []byte) (b, rest []byte, err error) {
	n, w := binary.Uvarint(data)
	if w <= 0 || n > uint64(len(data)-w) {
		return nil, nil, errors.New("large values do not end")
	}
	return data[w : w+int(n) : w+int(n)], data[w+int(n):], nil
}

// PackValues joins large values, each after its length; nil if there are none.
func PackValues(vs *codec.Values) (out []byte) {
	size := 0
	for _, raw := range vs.All() {
		size += uvarintSize(len(raw)) + len(raw)
	}
	if size > 0 {
		out = make([]byte, 0, size)
	}
	for _, raw := range vs.All() {
		out = pace.Append(binary.AppendUvarint(out, uint64(len(raw))), raw...)
	}
	return out
}

// UnpackValues is the inverse of PackValues. The hashes are computed: a value
// that has changed is not found under the hash that a record names.
func UnpackValues(data []byte) (*codec.Values, error) {
	vs := &codec.Values{}
	for len(data) > 0 {
		raw, rest, err := cutLength(data)
		if err == nil && len(raw) == 0 {
			err = errors.New("a large value is empty")
		}
		if err != nil {
			return nil, err
		}
		vs.Add(raw)
		data = rest
	}
	return vs, nil
}
