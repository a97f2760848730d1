package index

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"path"
	"strconv"
)

// A RunFile is what the name of a run's file says.
type RunFile struct {
	Nonce uint64
	Hash  [16]byte // the beginning of that of the id
	Slot  Slot
}

// Name returns where the file is below the directory.
func (f RunFile) Name() string { return FileNameOf(f.Hash, f.Nonce, f.Slot) }

// Compare orders files by their runs.
func (f RunFile) Compare(g RunFile) int {
	return cmp.Or(cmp.Compare(f.Nonce, g.Nonce), bytes.Compare(f.Hash[:], g.Hash[:]), cmp.Compare(f.Slot, g.Slot))
}

// ParseRunFile parses the name of a file in a folder below RunsDir, and reports whether an engine may have given it.
func ParseRunFile(folder, name string) (f RunFile, ok bool) {
	const hashLen, nonceLen = 32, 16
	if len(name) != hashLen+1+nonceLen+len("a.db") {
		return f, false
	}
	hash, err := hex.DecodeString(name[:hashLen])
	if err != nil {
		return f, false
	}
	nonce, err := strconv.ParseUint(name[hashLen+1:hashLen+1+nonceLen], 16, 64)
	if err != nil {
		return f, false
	}
	f = RunFile{Nonce: nonce, Hash: [16]byte(hash), Slot: Slot(name[hashLen+1+nonceLen] - 'a' + 1)}
	// The rest of the name must be as an engine writes it.
	return f, (f.Slot == 1 || f.Slot == 2) && f.Name() == path.Join(RunsDir, folder, name)
}
