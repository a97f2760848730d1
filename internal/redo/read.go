package redo

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrDamaged says that frames which were written cannot be read, or that a file is no redo log.
var ErrDamaged = errors.New("it is damaged")

// LifeOf returns the life of a file, of which data has the first bytes. It fails with ErrDamaged.
func LifeOf(data []byte) (uint64, error) {
	life, _, err := readHeader(data)
	return life, err
}

func readHeader(data []byte) (life uint64, region int64, err error) {
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		return 0, 0, fmt.Errorf("%w: it does not begin as a redo log", ErrDamaged)
	}
	header, sum := data[:headerSize-4], binary.LittleEndian.Uint32(data[headerSize-4:])
	if checksum(header) != sum {
		return 0, 0, fmt.Errorf("%w: its header has changed", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(header[len(magic):]); v != version {
		return 0, 0, fmt.Errorf("%w: it is of version %d, and this program reads %d", ErrDamaged, v, version)
	}
	life = binary.LittleEndian.Uint64(header[len(magic)+4:])
	region = int64(binary.LittleEndian.Uint64(header[len(magic)+12:])) //nolint:gosec // checked below
	if region <= 0 || region > 1<<32 {
		return 0, 0, fmt.Errorf("%w: the size of its regions is wrong", ErrDamaged)
	}
	return life, region, nil
}

// Read calls frame with the content of each frame of a file, in the order in which they were
// appended. With whole every frame was synced before the next one was written: then one that cannot
// be read and has others behind it is damage, and Read fails with ErrDamaged. Without, a loss of
// power may leave that, and the frames behind it do not count. It fails with the error of frame.
func Read(data []byte, whole bool, frame func([]byte) error) error {
	life, region, err := readHeader(data)
	if err != nil {
		return err
	}
	gens, err := readGenerations(data, life)
	if err != nil {
		return err
	}
	order := [2]int{0, 1}
	if gens[1] < gens[0] {
		order = [2]int{1, 0}
	}
	next := uint64(0) // number of the next frame, 0 if it cannot be told
	if gens == firstGenerations {
		next = 1
	}
	for _, i := range order {
		start := framesAt + int64(i)*region
		r := regionReader{data: data, life: life, gen: gens[i], at: start, end: min(start+region, int64(len(data))), next: next}
		if err := r.readFrames(frame); err != nil {
			return err
		}
		if r.findsFrame() {
			if whole {
				return fmt.Errorf("%w at byte %d: what was written later is there", ErrDamaged, r.at)
			}
			return nil
		}
		next = r.next
	}
	return nil
}

func readGenerations(data []byte, life uint64) (gens [2]uint64, err error) {
	for i := range gens {
		at := regionAt + i*sector
		if len(data) < at+12 {
			return gens, fmt.Errorf("%w: it is cut short", ErrDamaged)
		}
		gens[i] = binary.LittleEndian.Uint64(data[at:])
		if string(sectorOf(life, gens[i])) != string(data[at:at+12]) {
			return gens, fmt.Errorf("%w: the sector of its region %d has changed", ErrDamaged, i)
		}
	}
	return gens, nil
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

// findsFrame reports whether there is a frame of the generation at or behind the place where the next one is not.
func (r *regionReader) findsFrame() bool {
	for at := r.at; at+frameHeader <= r.end; at += alignment {
		if content, _, _ := r.frameAt(at); content != nil {
			return true
		}
	}
	return false
}
