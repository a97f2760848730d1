package redo

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"slices"
)

// The format. A sector is what a disk writes as a whole, or not.
const (
	magic       = "pawlredo"
	version     = 1
	sector      = 512
	ownerAt     = sector
	regionAt    = 2 * sector // the first of the two
	framesAt    = 4096
	frameHeader = 24
	alignment   = 8
	headerSize  = len(magic) + 4 + 4 + 8 + 8 + 4
)

// RegionBytes is how large a region of the file usually is. The frames in both of them are read and moved into pawl.db
// when a directory is opened that was not closed. Since that takes longest for many small records, parts of a usual size
// get no more than shareBytes of a region; the rest is for large ones.
const (
	RegionBytes = 32 << 20
	shareBytes  = 8 << 20
)

// LargePart is the size in bytes above which a part of a frame is a large one.
const LargePart = 512 << 10

// Zeros are added to a file that grows in steps, so that its size changes seldom: to sync a write
// that changes it takes a file system a write of its own journal as well.
const (
	reserveFrom = 64 << 10  // bytes of a region before it gets zeros
	reserveStep = 512 << 10 // bytes of zeros that it gets at once
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrOwned says that somebody else has taken the file over.
var ErrOwned = errors.New("another engine has taken the redo log over")

// A Log is the redo log that an engine appends to. It is not for several goroutines.
type Log struct {
	file    *os.File
	life    uint64
	region  int64                              // bytes of one
	gens    [2]uint64                          // of the regions
	current int                                // the region that takes frames
	free    bool                               // the other one may begin
	end     int64                              // in the file: where the next frame stands
	usual   int64                              // bytes of the parts in the current region that are not large
	number  uint64                             // of the next frame
	size    int64                              // of the file, at least, where zeros are added
	hasRoom func(f *os.File, bytes int64) bool // whether the disk has; nil: no zeros are added
	sync    func(*os.File) error
	frame   []byte // reused
}

// NewFile returns the bytes of a redo log without frames. With synced, every frame is synced before the next one is
// written.
func NewFile(life uint64, region int64, synced bool) []byte {
	out := make([]byte, framesAt)
	header := append([]byte(magic), make([]byte, 0, headerSize)...)
	header = binary.LittleEndian.AppendUint32(header, version)
	header = binary.LittleEndian.AppendUint32(header, map[bool]uint32{true: 1}[synced])
	header = binary.LittleEndian.AppendUint64(header, life)
	header = binary.LittleEndian.AppendUint64(header, uint64(wholeRegion(region))) //nolint:gosec // it is positive
	copy(out, binary.LittleEndian.AppendUint32(header, crcOf(header)))
	binary.LittleEndian.PutUint64(out[ownerAt:], life)
	for i, gen := range firstGenerations {
		copy(out[regionAt+i*sector:], sectorOf(life, gen))
	}
	return out
}

// firstGenerations are those of the regions of a new file.
var firstGenerations = [2]uint64{1, 2}

func wholeRegion(bytes int64) int64 { return max(alignment, bytes/alignment*alignment) }

// NewLog returns the log of a file that has the bytes of [NewFile]. sync makes the contents of a file durable.
// With hasRoom, which says whether the disk of a file has room for some bytes, zeros are added where frames will be,
// which makes that cheaper.
func NewLog(f *os.File, life uint64, region int64, hasRoom func(f *os.File, bytes int64) bool, sync func(*os.File) error) *Log {
	return &Log{file: f, life: life, region: wholeRegion(region), gens: firstGenerations, free: true, end: framesAt, number: 1, hasRoom: hasRoom, sync: sync}
}

// sectorOf returns what the sector of a region says.
func sectorOf(life, gen uint64) []byte {
	out := binary.LittleEndian.AppendUint64(nil, gen)
	sum := crc32.Update(crcOf(binary.LittleEndian.AppendUint64(nil, life)), castagnoli, out)
	return binary.LittleEndian.AppendUint32(out, sum)
}

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// frameSum returns the checksum of a frame at a place, whose bytes begin with its length.
func frameSum(life uint64, at int64, frame []byte) uint32 {
	var start [20]byte
	binary.LittleEndian.PutUint64(start[:], life)
	binary.LittleEndian.PutUint64(start[8:], uint64(at)) //nolint:gosec // it is positive
	copy(start[16:], frame[:4])
	return crc32.Update(crcOf(start[:]), castagnoli, frame[8:])
}

// Generation returns the generation of the region that takes frames.
func (l *Log) Generation() uint64 { return l.gens[l.current] }

// Fits reports whether a region that is empty takes a frame with so many bytes.
func (l *Log) Fits(bytes int) bool { return frameSize(bytes) <= l.region }

// HasRoom reports whether the region takes a frame with so many bytes, of large parts and of others.
func (l *Log) HasRoom(large, usual int) bool {
	return l.end+frameSize(large+usual) <= l.endOf(l.current) && (usual == 0 || l.usual+int64(usual) <= l.share())
}

// share returns how many bytes of parts that are not large a region takes.
func (l *Log) share() int64 { return min(l.region, shareBytes) }

// Filled returns how much of the region is in use, from 0 to 1.
func (l *Log) Filled() float64 {
	all := 1 - float64(l.endOf(l.current)-l.end)/float64(l.region)
	return max(all, float64(l.usual)/float64(l.share()))
}

// Used returns how many bytes of how many are in use. A region that is not free counts as full, and so does one that takes
// only large parts any more.
func (l *Log) Used() (used, most int64) {
	used = int64(l.Filled() * float64(l.region))
	if !l.free {
		used += l.region
	}
	return used, 2 * l.region
}

func (l *Log) endOf(region int) int64 { return framesAt + int64(region+1)*l.region }

// frameSize returns how many bytes a frame with so many takes in the file.
func frameSize(bytes int) int64 {
	return (frameHeader + int64(bytes) + alignment - 1) / alignment * alignment
}

// IsFree reports whether the region that takes no frames may begin.
func (l *Log) IsFree() bool { return l.free }

// Switch has the other region take frames. It must be free.
func (l *Log) Switch() {
	l.current, l.free, l.usual = 1-l.current, false, 0
	l.end = framesAt + int64(l.current)*l.region
}

// Recycle has the region that takes no frames begin anew, durably. Everything in it must be durable elsewhere. It
// is free when Free says so; until then frames may be appended meanwhile, by another goroutine.
func (l *Log) Recycle() error {
	_, err := l.file.WriteAt(sectorOf(l.life, l.gens[l.current]+1), regionAt+int64(1-l.current)*sector)
	if err == nil {
		err = l.Sync()
	}
	return err
}

// Free has the region count as free that Recycle has begun anew.
func (l *Log) Free() { l.gens[1-l.current], l.free = l.gens[l.current]+1, true }

// Append writes a frame of some parts, for which there must be room. After an error the frame may be
// there or not, as long as nothing else was appended.
func (l *Log) Append(parts ...[]byte) error {
	large, usual := 0, 0
	for _, p := range parts {
		if len(p) > LargePart {
			large += len(p)
		} else {
			usual += len(p)
		}
	}
	write := l.appendSmall
	if large > 0 {
		write = l.appendLarge
	}
	n, err := write(large+usual, parts)
	if err != nil {
		return err
	}
	l.end += n
	l.usual += int64(usual)
	l.number++
	return nil
}

// appendSmall writes a frame of parts with so many bytes, in one piece, and returns how many bytes it takes.
func (l *Log) appendSmall(bytes int, parts [][]byte) (int64, error) {
	l.frame = append(l.frame[:0], make([]byte, frameHeader)...)
	b := l.frame
	for _, p := range parts {
		b = append(b, p...)
	}
	binary.LittleEndian.PutUint32(b, uint32(bytes)) //nolint:gosec // a region is smaller
	binary.LittleEndian.PutUint64(b[8:], l.gens[l.current])
	binary.LittleEndian.PutUint64(b[16:], l.number)
	for len(b)%alignment != 0 {
		b = append(b, 0)
	}
	binary.LittleEndian.PutUint32(b[4:], frameSum(l.life, l.end, b))
	l.frame = b
	l.reserveZeros(l.end + int64(len(b)))
	_, err := l.file.WriteAt(b, l.end)
	return int64(len(b)), err
}

// appendLarge is appendSmall without a copy of the parts: the file has the frame when its last byte is written.
// It grows by itself, without zeros: to write those as well would cost more than the file system's journal.
func (l *Log) appendLarge(bytes int, parts [][]byte) (int64, error) {
	header := make([]byte, frameHeader)
	binary.LittleEndian.PutUint32(header, uint32(bytes)) //nolint:gosec // a region is smaller
	binary.LittleEndian.PutUint64(header[8:], l.gens[l.current])
	binary.LittleEndian.PutUint64(header[16:], l.number)
	size := frameSize(bytes)
	filling := make([]byte, size-frameHeader-int64(bytes))
	sum := frameSum(l.life, l.end, header)
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	binary.LittleEndian.PutUint32(header[4:], crc32.Update(sum, castagnoli, filling))
	at := l.end
	for _, p := range slices.Concat([][]byte{header}, parts, [][]byte{filling}) {
		if len(p) == 0 {
			continue
		}
		if _, err := l.file.WriteAt(p, at); err != nil {
			return 0, err
		}
		at += int64(len(p))
	}
	return size, nil
}

// reserveZeros adds zeros to a file that is about to grow. Zeros are no frame. Where they find no room the file grows by
// itself, as long as it can: on a disk that is nearly full they take nothing from others.
func (l *Log) reserveZeros(end int64) {
	start := framesAt + int64(l.current)*l.region
	if l.hasRoom == nil || end <= l.size || end-start < reserveFrom {
		return
	}
	n := min(reserveStep, max(0, l.endOf(l.current)-end))
	if !l.hasRoom(l.file, 16*reserveStep) {
		l.hasRoom = nil
		return
	}
	if err := WriteZeros(l.file, end, n); err != nil {
		l.hasRoom = nil
		return
	}
	l.size = end + n
}

// zeros are what WriteZeros writes.
var zeros [64 << 10]byte

// WriteZeros writes so many zeros into a file.
func WriteZeros(f *os.File, at, n int64) error {
	for ; n > 0; at, n = at+int64(len(zeros)), n-int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(n, int64(len(zeros)))], at); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes the frames durable.
func (l *Log) Sync() error { return l.sync(l.file) }

// CheckOwner fails with ErrOwned if somebody else has taken the file over.
func (l *Log) CheckOwner() error {
	var b [8]byte
	if _, err := l.file.ReadAt(b[:], ownerAt); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(b[:]) != l.life {
		return ErrOwned
	}
	return nil
}

// Restart drops all frames, durably, so that nothing of them is left in the file. They must be durable elsewhere. After
// an error nothing may be appended any more.
func (l *Log) Restart() error {
	gen := max(l.gens[0], l.gens[1]) + 1
	if err := l.file.Truncate(framesAt); err != nil {
		return err
	}
	for i := range l.gens {
		l.gens[i] = gen + uint64(i) //nolint:gosec // 0 or 1
		if _, err := l.file.WriteAt(sectorOf(l.life, l.gens[i]), regionAt+int64(i)*sector); err != nil {
			return err
		}
	}
	l.current, l.free, l.end, l.usual, l.size = 0, true, framesAt, 0, 0
	return l.Sync()
}

// IsEmpty reports whether the file has no frames, and never had since it was made or restarted.
func (l *Log) IsEmpty() bool { return l.current == 0 && l.free && l.end == framesAt }

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// TakeOver makes a file somebody else's, durably: whoever appends to it appends nothing more, and what
// is read from now on is all there is.
func TakeOver(f *os.File, owner uint64) error {
	if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, owner), ownerAt); err != nil {
		return err
	}
	return f.Sync()
}
