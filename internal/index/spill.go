package index

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
)

// deflated is the first byte of a spill that is compressed; the length of the text follows, as a uvarint, and the
// text as DEFLATE has it. No text of PackEntry begins so, since no message is empty.
const deflated = 0

const (
	deflateFrom = 64 << 10 // bytes of a text that is compressed; of fewer it is not worth it
	deflateOnce = 64 << 10 // bytes that are compressed before others run
	judgedFrom  = 64 << 10 // bytes after which a text that has not become half as large is left as it is

	// A text that is longer, or would become smaller by more than maxShrink, is not compressed, and a spill that says it was
	// is refused: so reading a spill never costs more than in proportion to its bytes.
	maxDeflated = 256 << 20
	maxShrink   = 64 // times
)

// PackSpill returns what the parts of a record's spill hold together: the text of PackEntry, compressed if that makes
// it half as large. The start of a wide fan-out, which says nearly the same of each branch, takes a tenth of its text. To
// compress what shrinks by a quarter, such as base64, takes as long as to write it.
func PackSpill(e *runfile.Entry) []byte {
	if small := deflateEntry(e); small != nil {
		return small
	}
	return PackEntry(e)
}

// deflateEntry returns the text of PackEntry compressed, or nil if that is not worth it.
func deflateEntry(e *runfile.Entry) []byte {
	size := 0
	for text := range textsOf(e) {
		size += len(binary.AppendUvarint(nil, uint64(len(text)))) + len(text)
	}
	if size < deflateFrom || size > maxDeflated {
		return nil
	}
	out := bytes.NewBuffer(binary.AppendUvarint([]byte{deflated}, uint64(size)))
	whole := DeflateTexts(out, textsOf(e), func(done int) bool { return done < judgedFrom || out.Len() <= done/2 })
	if !whole || out.Len() > size/2 || out.Len() < size/maxShrink {
		return nil
	}
	return out.Bytes()
}

// deflaters has the memory of compression, which takes more than half a MB each.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // it refuses other levels
	return w
}}

// DeflateTexts appends texts, each after its length, compressed together. It asks goOn after each piece, with how many bytes
// that makes, and reports whether it was never told to stop.
func DeflateTexts(out *bytes.Buffer, texts iter.Seq[[]byte], goOn func(done int) bool) (whole bool) {
	w, _ := deflaters.Get().(*flate.Writer)
	defer func() {
		w.Reset(io.Discard) // it keeps what it has written otherwise
		deflaters.Put(w)
	}()
	w.Reset(out)
	done := 0
	for text := range texts {
		var size [binary.MaxVarintLen64]byte
		n, _ := w.Write(size[:binary.PutUvarint(size[:], uint64(len(text)))]) // a Buffer never fails
		for done += n; len(text) > 0; done += n {
			if n, _ = w.Write(text[:min(deflateOnce, len(text))]); n == deflateOnce { // likewise
				pace.Pause()
			}
			if text = text[n:]; !goOn(done + n) {
				return false
			}
		}
	}
	_ = w.Close() // likewise
	return true
}

// UnpackSpill is the inverse of PackSpill.
func UnpackSpill(e *runfile.Entry, data []byte) error {
	if len(data) == 0 || data[0] != deflated {
		return UnpackEntry(e, data)
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || size > maxDeflated || size/maxShrink > uint64(len(data)) {
		return errors.New("the length of its text is wrong")
	}
	in := bytes.NewReader(data[1+n:])
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(in), int64(size)+1)) //nolint:gosec // it is bounded
	switch {
	case err == nil && uint64(len(text)) != size:
		err = fmt.Errorf("it has %d bytes, not %d", len(text), size)
	case err == nil && in.Len() > 0:
		err = fmt.Errorf("%d bytes follow it", in.Len())
	}
	if err != nil {
		return fmt.Errorf("its text cannot be decompressed: %w", err)
	}
	return UnpackEntry(e, text)
}
