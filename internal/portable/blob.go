package portable

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/pawl-run/pawl/internal/strict"
)

// A piece is a part of a blob, as a line has it.
type piece struct {
	Hash string `json:"hash"` // of the blob
	Data []byte `json:"data"`
	More bool   `json:"more,omitzero"` // the next line has more of it
}

// pieceSize is how many bytes of a blob a line has at most.
const pieceSize = 512 << 10

// WriteBlob writes what a reader gives as the blob with a hash. Blobs come behind all runs, each once.
//
// Only io.EOF itself is the end: a reader that broke may have an error that wraps it, or io.ErrUnexpectedEOF.
func (w *Writer) WriteBlob(hash string, from io.Reader) error {
	var data bytes.Buffer
	data.Grow(pieceSize + bytes.MinRead)
	for more := true; more; data.Reset() {
		_, err := io.CopyN(&data, from, pieceSize)
		more = err == nil
		if more || err == io.EOF { //nolint:errorlint // see above
			err = w.writeLine(line{Blob: &piece{hash, data.Bytes(), more}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// followPiece returns the blob that must go on behind a line, "" if none must, or what is wrong with the line.
func followPiece(open string, l *line, version int) (string, error) {
	switch {
	case l.Blob == nil && open != "":
		return "", fmt.Errorf("the rest of the blob %.100q is missing", open)
	case l.Blob == nil:
		return "", nil
	case version < blobVersion:
		return "", fmt.Errorf("a blob in version %d", version)
	case l.Blob.Hash == "" || open != "" && l.Blob.Hash != open:
		return "", fmt.Errorf("a piece of the blob %.100q behind one of %.100q", l.Blob.Hash, open)
	case l.Blob.More:
		return l.Blob.Hash, nil
	}
	return "", nil
}

// ReadBlobs calls each with the blobs in the exports of a text, one after the other; what it does not read is passed over. The
// text must be one that Read has read without an error: nothing is checked here, nor does the hash have to be that of
// the content.
func ReadBlobs(from io.Reader, each func(hash string, content io.Reader) error) error {
	lines := newScanner(from)
	for lines.Scan() {
		b := &blobReader{lines: lines}
		if !bytes.HasPrefix(lines.Bytes(), []byte(`{"blob":`)) {
			continue
		}
		if err := b.take(); err != nil {
			return err
		}
		if err := each(b.piece.Hash, b); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, b); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A blobReader reads one blob, line by line.
type blobReader struct {
	lines *bufio.Scanner
	piece piece // what is left of the line
}

// take reads the piece of the line.
func (b *blobReader) take() error {
	var l line
	if err := strict.DecodeObject(b.lines.Bytes(), &l); err != nil || l.Blob == nil {
		return fmt.Errorf("%w: a blob is not whole", ErrDamaged)
	}
	b.piece = *l.Blob
	return nil
}

// Read implements io.Reader.
func (b *blobReader) Read(to []byte) (int, error) {
	for len(b.piece.Data) == 0 {
		if !b.piece.More {
			return 0, io.EOF
		}
		if !b.lines.Scan() {
			return 0, errors.Join(ErrDamaged, b.lines.Err())
		}
		if err := b.take(); err != nil {
			return 0, err
		}
	}
	n := copy(to, b.piece.Data)
	b.piece.Data = b.piece.Data[n:]
	return n, nil
}
