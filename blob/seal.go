package blob

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/pawl-run/pawl/internal/seal"
)

// A Codec stands between the content of blobs and the disk. pawl.Codec says what its methods do.
type Codec interface {
	KeyID() string
	Encode(place string, plain []byte) (stored []byte, err error)
	Decode(keyID, place string, stored []byte) (plain []byte, err error)
}

// sealPlace is the place of every blob: the hash of its content, which is its name, binds it.
const sealPlace = "blob"

// copySealed reads r to its end into t, sealed.
func (f *Files) copySealed(t *temporary, read func(to io.Writer) (int64, error)) (size int64, err error) {
	w, err := f.sealer.NewWriter(sealPlace, struct {
		io.Writer
		io.Seeker
	}{f.write(t.file), t.file})
	if err == nil {
		size, err = read(io.MultiWriter(w, t.sum))
	}
	if err == nil {
		err = wrapError("", "write", w.Close())
	}
	return size, err
}

// openSealed returns a reader of the content of a file that is sealed, nil if it is not.
func (f *Files) openSealed(file *os.File) (*seal.Reader, error) {
	if !f.sealer.IsOn() {
		return nil, nil
	}
	r, err := f.sealer.NewReader(sealPlace, file)
	if err == nil && r == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return r, err
}

// statSealed is statBlob for a folder with sealed blobs.
func (f *Files) statSealed(root *os.Root, a address) (Info, error) {
	file, info, err := openBlob(root, a)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	out := Info{Hash: a.fullHash(), Size: info.Size(), Time: info.ModTime()}
	r, err := f.openSealed(file)
	if r != nil {
		out.Size = r.Size
	}
	return out, wrapError(a.fullHash(), "read", err)
}

// checkUnopened returns why a file whose bytes do not have its hash is not damaged but sealed; nil
// if it is damaged.
func checkUnopened(file *os.File) error {
	r, err := seal.Sealer{}.NewReader(sealPlace, io.NewSectionReader(file, 0, math.MaxInt64))
	if err != nil || r == nil {
		return nil
	}
	if _, err = io.Copy(io.Discard, r); errors.Is(err, seal.ErrSealed) {
		return err
	}
	return nil
}
