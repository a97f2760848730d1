package seal

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// A sealed stream is a header and chunks, each sealed by itself: a change costs the chunk
// that it is in, and nothing large has to be in memory at once. The header is magic, the size of
// the plain content (8 bytes, big-endian), 16 random bytes, and the id of the key after its
// length (1 byte); after magic is the SHA-256 of the chunks and of the rest of the header, which
// tells damage from a key that is missing. A chunk stands after its length (4 bytes, big-endian).
// Its place names the random bytes, its number and whether it is the last, so that chunks can be
// neither moved, nor left out, nor taken from another stream.
const (
	magic      = "\x01pawl sealed 1\n\x00"
	sumAt      = len(magic)
	sizeAt     = sumAt + sha256.Size
	nameAt     = sizeAt + 8
	nameSize   = 16
	keyAt      = nameAt + nameSize
	headerSize = keyAt + 1 + maxKeyID // at most

	chunkSize = 16 << 10
	maxStored = 1 << 20 // of a chunk
)

// A header is what a sealed stream begins with.
type header struct {
	sum   [sha256.Size]byte
	size  int64 // of the plain content
	name  [nameSize]byte
	keyID string
}

func (h *header) encoded() []byte {
	out := append(append(make([]byte, 0, headerSize), magic...), h.sum[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(h.size))
	out = append(out, h.name[:]...)
	return append(append(out, byte(len(h.keyID))), h.keyID...)
}

// sumOf returns the checksum of the header with chunks, which were written to a hash.
func (h *header) sumOf(chunks hash.Hash) (out [sha256.Size]byte) {
	chunks.Write(h.encoded()[sizeAt:])
	chunks.Sum(out[:0])
	return out
}

// chunkPlace returns the place of a chunk.
func (h *header) chunkPlace(of string, n int64, last bool) string {
	end := ""
	if last {
		end = " last"
	}
	return fmt.Sprintf("%s %x %d%s", of, h.name, n, end)
}

// errHeader says that bytes do not begin a sealed stream.
var errHeader = errors.New("it does not begin as a sealed stream does")

// readHeader reads what a sealed stream begins with. Any other bytes are errHeader.
func readHeader(r io.Reader) (h header, err error) {
	var fixed [keyAt + 1]byte
	if _, err := io.ReadFull(r, fixed[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return h, errHeader
	} else if err != nil {
		return h, err
	}
	id := make([]byte, fixed[keyAt])
	if _, err := io.ReadFull(r, id); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return h, err
	}
	h.size, h.keyID = int64(binary.BigEndian.Uint64(fixed[sizeAt:])), string(id)
	copy(h.sum[:], fixed[sumAt:])
	copy(h.name[:], fixed[nameAt:])
	if string(fixed[:sumAt]) != magic || h.size < 0 || !IsKeyID(h.keyID) {
		return h, errHeader
	}
	return h, nil
}

// A Writer seals what is written to it.
type Writer struct {
	sealer Sealer
	place  string
	to     io.WriteSeeker
	head   header
	sum    hash.Hash // of the chunks
	chunk  []byte    // not sealed yet
	n      int64     // chunks that are written
}

// NewWriter returns a Writer that seals to a file, which is empty. The sealer has a codec.
// Close it.
func (s Sealer) NewWriter(place string, to io.WriteSeeker) (*Writer, error) {
	w := &Writer{sealer: s, place: place, to: to, head: header{keyID: s.codec.KeyID()}, sum: sha256.New(), chunk: make([]byte, 0, chunkSize)}
	_, _ = rand.Read(w.head.name[:]) // it never fails
	_, err := to.Write(w.head.encoded())
	return w, err
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if len(w.chunk) == chunkSize {
			if err := w.writeChunk(false); err != nil {
				return len(p) - len(rest), err
			}
		}
		n := min(chunkSize-len(w.chunk), len(rest))
		w.chunk, rest = append(w.chunk, rest[:n]...), rest[n:]
	}
	w.head.size += int64(len(p))
	return len(p), nil
}

func (w *Writer) writeChunk(last bool) error {
	place := w.head.chunkPlace(w.place, w.n, last)
	stored, err := w.sealer.codec.Encode(place, w.chunk)
	if err == nil && len(stored) > maxStored {
		err = fmt.Errorf("the codec made %d bytes of %d", len(stored), len(w.chunk))
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", place, err)
	}
	w.chunk, w.n = w.chunk[:0], w.n+1
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(stored))), stored...)
	w.sum.Write(framed)
	_, err = w.to.Write(framed)
	return err
}

// Close writes the end of the stream, and its size at the beginning. The file stays open.
func (w *Writer) Close() error {
	err := w.writeChunk(true)
	w.head.sum = w.head.sumOf(w.sum)
	if err == nil {
		_, err = w.to.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = w.to.Write(w.head.encoded())
	}
	return err
}

// A Reader opens a sealed stream.
type Reader struct {
	Size   int64 // of the plain content, as the header says
	sealer Sealer
	place  string
	from   *bufio.Reader
	head   header
	sum    hash.Hash // of the chunks that were read
	n      int64     // chunks that were read
	plain  []byte    // not handed out yet
	read   int64
	err    error
}

// ErrChanged says that a sealed stream is not what was written.
var ErrChanged = errors.New("it is sealed, and has changed since")

// NewReader returns a Reader of a stream; nil if it is not a sealed one. Its errors are
// those of from, ErrChanged, and *Error of a stream that is what was written.
func (s Sealer) NewReader(place string, from io.Reader) (*Reader, error) {
	buffered := bufio.NewReaderSize(from, chunkSize+1<<10)
	if start, err := buffered.Peek(len(magic)); string(start) != magic {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	}
	h, err := readHeader(buffered)
	if errors.Is(err, errHeader) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Reader{Size: h.size, sealer: s, place: place, from: buffered, head: h, sum: sha256.New()}, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.plain) == 0 && r.err == nil {
		r.plain, r.err = r.readChunk()
		r.read += int64(len(r.plain))
	}
	n := copy(p, r.plain)
	if r.plain = r.plain[n:]; len(r.plain) > 0 || n > 0 {
		return n, nil
	}
	return 0, r.err
}

// readChunk returns the next chunk, with io.EOF if it is the last.
func (r *Reader) readChunk() ([]byte, error) {
	stored, last, err := r.storedChunk()
	if err != nil {
		return nil, err
	}
	plain, err := r.openChunk(stored, last)
	switch {
	case err != nil:
		return nil, r.checkRest(last, err)
	case !last:
		return plain, nil
	case r.read+int64(len(plain)) != r.Size:
		return nil, ErrChanged
	}
	return plain, io.EOF
}

func (r *Reader) openChunk(stored []byte, last bool) ([]byte, error) {
	place := r.head.chunkPlace(r.place, r.n, last)
	r.n++
	return r.sealer.openBytes(r.head.keyID, place, stored)
}

// checkRest reads the rest of a stream that cannot be opened. It returns an *Error with
// the cause if all of it is what was written.
func (r *Reader) checkRest(last bool, cause error) (err error) {
	for !last {
		if _, last, err = r.storedChunk(); err != nil {
			return err
		}
	}
	if r.head.sumOf(r.sum) != r.head.sum {
		return ErrChanged
	}
	return r.sealer.sealedError(r.head.keyID, r.place, cause)
}

// storedChunk reads the next chunk as it is stored, and tells whether it is the last.
func (r *Reader) storedChunk() (stored []byte, last bool, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r.from, size[:]); err != nil {
		return nil, false, orChanged(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxStored {
		return nil, false, ErrChanged
	}
	stored = make([]byte, n)
	if _, err := io.ReadFull(r.from, stored); err != nil {
		return nil, false, orChanged(err)
	}
	r.sum.Write(size[:])
	r.sum.Write(stored)
	_, err = r.from.Peek(1)
	if last = errors.Is(err, io.EOF); last {
		err = nil
	}
	return stored, last, err
}

// orChanged returns the error of a read; the end of the bytes is ErrChanged.
func orChanged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrChanged
	}
	return err
}

// SealBytes returns plain as a sealed stream. Without a codec it is plain.
func (s Sealer) SealBytes(place string, plain []byte) ([]byte, error) {
	if s.codec == nil {
		return plain, nil
	}
	out := &memory{bytes: make([]byte, 0, len(plain)+len(plain)/64+1<<10)}
	w, err := s.NewWriter(place, out)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	return out.bytes, err
}

// OpenBytes returns what SealBytes was given; what was not sealed is returned as it is. It
// fails with ErrChanged, or an *Error.
func (s Sealer) OpenBytes(place string, data []byte) ([]byte, error) {
	r, err := s.NewReader(place, bytes.NewReader(data))
	if err != nil || r == nil {
		return data, err
	}
	out := bytes.NewBuffer(make([]byte, 0, min(r.Size, int64(len(data)))+bytes.MinRead))
	_, err = out.ReadFrom(r)
	return out.Bytes(), err
}

// Salvage returns what is left of data that SealBytes made and that may be damaged: each
// chunk that cannot be opened is zeros. If none can be opened it fails with ErrChanged, or an
// *Error if data is what was written. A Watch is told in both cases: with the key, chunks might open.
func (s Sealer) Salvage(place string, data []byte) ([]byte, error) {
	r, err := s.NewReader(place, bytes.NewReader(data))
	if err != nil || r == nil {
		return data, err
	}
	var out []byte
	opened := false
	for last := false; !last; {
		var stored []byte
		if stored, last, err = r.storedChunk(); err != nil {
			break
		}
		plain, failed := r.openChunk(stored, last)
		if failed != nil {
			plain = make([]byte, min(chunkSize, max(r.Size-int64(len(out)), 0)))
		}
		opened, out = opened || failed == nil, append(out, plain...)
	}
	if !opened {
		if _, err = s.OpenBytes(place, data); errors.Is(err, ErrChanged) {
			_ = s.sealedError(r.head.keyID, place, err) // it tells the watch
		}
		return nil, err
	}
	return out, nil
}

// A memory is a file in memory; only its beginning is written again.
type memory struct {
	bytes []byte
	at    int
}

func (m *memory) Write(p []byte) (int, error) {
	n := copy(m.bytes[m.at:], p)
	m.bytes = append(m.bytes, p[n:]...)
	m.at += len(p)
	return len(p), nil
}

// Seek implements io.Seeker, for the beginning.
func (m *memory) Seek(int64, int) (int64, error) { m.at = 0; return 0, nil }
