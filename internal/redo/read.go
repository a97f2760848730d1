package redo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ErrDamaged says that frames which were written cannot be read, or that a file is no redo log.
var ErrDamaged = errors.New("it is damaged")

// OwnerOf returns the life of the file that begins with data, and its owner. It fails with ErrDamaged.
func OwnerOf(data []byte) (life, owner uint64, err error) {
	h, err := readHeader(data)
	if err == nil && len(data) < ownerAt+8 {
		err = fmt.Errorf("%w: it ends before it names its owner", ErrDamaged)
	}
	if err != nil {
		return h.life, 0, err
	}
	return h.life, binary.LittleEndian.Uint64(data[ownerAt:]), nil
}

// A fileHeader is what a file begins with.
type fileHeader struct {
	synced bool
	life   uint64
	region int64
	gens   [2]uint64
}

func readHeader(data []byte) (h fileHeader, err error) {
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		return h, fmt.Errorf("%w: it does not begin as a redo log", ErrDamaged)
	}
	header, sum := data[:headerSize-4], binary.LittleEndian.Uint32(data[headerSize-4:])
	if crcOf(header) != sum {
		return h, fmt.Errorf("%w: its header has changed", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(header[len(magic):]); v != version {
		return h, fmt.Errorf("%w: it is of version %d, and this program reads %d", ErrDamaged, v, version)
	}
	h.synced = binary.LittleEndian.Uint32(header[len(magic)+4:]) != 0
	h.life = binary.LittleEndian.Uint64(header[len(magic)+8:])
	h.region = int64(binary.LittleEndian.Uint64(header[len(magic)+16:])) //nolint:gosec // checked below
	if h.region <= 0 || h.region > 1<<32 {
		return h, fmt.Errorf("%w: the size of its regions is wrong", ErrDamaged)
	}
	return h, nil
}

// Read calls frame with the content of each frame of a file, in the order in which they were
// appended. If each was synced before the next one was written, one that cannot be read and has others behind it is
// damage, and Read fails with ErrDamaged. If not, a loss of power may leave that, and the frames behind it do not
// count. It fails with the error of frame.
func Read(data []byte, frame func([]byte) error) error {
	h, regions, err := readRegions(data)
	if err != nil {
		return err
	}
	next := uint64(0) // number of the next frame, 0 if it cannot be told
	if h.gens == firstGenerations {
		next = 1
	}
	for n, r := range regions {
		r.next = next
		if probe := *r; h.synced && n == 1 && next == 0 && probe.findFrame() { // this region takes frames when the other one is full
			return fmt.Errorf("%w: nothing of its older region is left, and what was written later is there", ErrDamaged)
		}
		if err := r.readFrames(frame); err != nil {
			return err
		}
		switch {
		case !r.findFrame():
		case h.synced:
			return fmt.Errorf("%w: of what was written into it something cannot be read, and what came later is there", ErrDamaged)
		default:
			return nil
		}
		next = r.next
	}
	return nil
}

// Salvage calls frame with the content of each frame of a file that can be read, in the order in which they were
// appended, whatever is missing between them. It fails with ErrDamaged if the file does not tell where frames are.
func Salvage(data []byte, frame func([]byte) error) error {
	_, regions, err := readRegions(data)
	for i := 0; i < len(regions) && err == nil; i++ {
		r := regions[i]
		for more := true; more && err == nil; more = r.findFrame() {
			r.next = 0
			err = r.readFrames(frame)
		}
	}
	return err
}

// IsSynced reports whether each frame of a file was synced before the next one was written, as far as that can be told.
func IsSynced(data []byte) bool {
	h, err := readHeader(data)
	return err == nil && h.synced
}

// readRegions returns readers of the regions of a file, that of the older one first.
func readRegions(data []byte) (h fileHeader, regions []*regionReader, err error) {
	if h, err = readHeader(data); err != nil {
		return h, nil, err
	}
	for i := range h.gens {
		at := regionAt + i*sector
		if len(data) < at+12 {
			return h, nil, fmt.Errorf("%w: it is cut short", ErrDamaged)
		}
		h.gens[i] = binary.LittleEndian.Uint64(data[at:])
		if string(sectorOf(h.life, h.gens[i])) != string(data[at:at+12]) {
			return h, nil, fmt.Errorf("%w: the sector of its region %d has changed", ErrDamaged, i)
		}
		start := framesAt + int64(i)*h.region
		regions = append(regions, &regionReader{data: data, life: h.life, gen: h.gens[i], at: start, end: min(start+h.region, int64(len(data)))})
	}
	if h.gens[1] < h.gens[0] {
		slices.Reverse(regions)
	}
	return h, regions, nil
}

// A regionReader reads the frames of one region from at on.
type regionReader struct {
	data    []byte
	life    uint64
	gen     uint64
	at, end int64
	next    uint64 // number of the next frame, 0 if any may be
}

// frameAt returns the content of the frame at a place, nil if none of the generation is there, its number, and where it ends.
func (r *regionReader) frameAt(at int64) (content []byte, number uint64, end int64) {
	if at+frameHeader > r.end || binary.LittleEndian.Uint64(r.data[at+8:]) != r.gen {
		return nil, 0, 0
	}
	n := int64(binary.LittleEndian.Uint32(r.data[at:]))
	end = at + frameSize(int(n))
	if n == 0 || end > r.end || binary.LittleEndian.Uint32(r.data[at+4:]) != frameSum(r.life, at, r.data[at:end]) {
		return nil, 0, 0
	}
	return r.data[at+frameHeader : at+frameHeader+n], binary.LittleEndian.Uint64(r.data[at+16:]), end
}

// readFrames reads frames up to the first place at which the next one is not.
func (r *regionReader) readFrames(frame func([]byte) error) error {
	for {
		content, number, end := r.frameAt(r.at)
		if content == nil || r.next != 0 && number != r.next {
			return nil
		}
		if err := frame(content); err != nil {
			return err
		}
		r.at, r.next = end, number+1
	}
}

// findFrame looks for a frame of the generation at or behind the place where the next one is not, and goes there.
func (r *regionReader) findFrame() bool {
	gen := binary.LittleEndian.AppendUint64(nil, r.gen)
	for at := r.at; at+frameHeader <= r.end; {
		// Most of a region may be zeros.
		n := bytes.Index(r.data[at+8:r.end], gen)
		if n < 0 {
			return false
		}
		if at += int64(n); at%alignment == 0 {
			if content, _, _ := r.frameAt(at); content != nil {
				r.at = at
				return true
			}
		}
		at++
	}
	return false
}
