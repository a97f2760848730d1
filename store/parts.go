package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/hook"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A large record in the log would hold all other commits up while it is written,
// and again while what it left in the write-ahead log is moved into pawl.db. It is
// put aside first, in parts, each with a commit of its own, between which others
// commit; the commit of the record then only names them. Parts that no record
// names, because that commit never came or the record was trimmed, are dropped the
// same way, or all at once by the next Open.

// Bounds of the parts.
const (
	partBytes   = 512 << 10 // of one, and of a record that is not put aside
	droppedOnce = 2         // parts in one transaction
	readOnce    = 2         // parts for which the lock is held
)

func init() { hook.PartBytes.Store(partBytes) }

// partBits are the bits of a part's key that count the parts of one record.
const partBits = 20

const (
	putPart      = `INSERT INTO parts (key, data) VALUES (?, ?)`
	getParts     = `SELECT key, data FROM parts WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?`
	dropSomePart = `DELETE FROM parts WHERE key IN (SELECT key FROM parts WHERE key BETWEEN ? AND ? LIMIT ?)`
	namedParts   = `SELECT parts FROM log WHERE key BETWEEN ? AND ? AND parts IS NOT NULL`
	dropStray    = `DELETE FROM parts WHERE key >> 20 NOT IN (SELECT parts FROM log WHERE parts IS NOT NULL)`
	lastPart     = `SELECT max(0, coalesce(max(key) >> 20, 0)) FROM parts`
)

// partKeys returns the first and the last key that parts of a record may have.
func partKeys(parts int64) (first, last int64) {
	return parts << partBits, (parts+1)<<partBits - 1
}

// A heap is what is to be dropped.
type heap struct {
	mu    sync.Mutex
	parts []int64
	spans []span // of dead records
}

func (h *heap) add(parts ...int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parts = append(h.parts, parts...)
}

func (h *heap) take() (parts int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.parts) - 1
	if n < 0 {
		return 0, false
	}
	parts, h.parts = h.parts[n], h.parts[:n]
	return parts, true
}

func (h *heap) addSpans(spans []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spans = append(h.spans, spans...)
}

func (h *heap) takeSpans() (spans []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	spans, h.spans = h.spans, nil
	return spans
}

// putAside puts the large records among some aside, and numbers their parts. What
// could not be dropped before, on a full disk, is dropped first: it does not add up.
func (d *Dir) putAside(batch []entry) error {
	for i := range batch {
		batch[i].parts = 0
	}
	for i := range batch {
		e := &batch[i]
		if e.size() <= hook.PartBytes.Load() {
			continue
		}
		err := d.clearHeap()
		if err == nil {
			err = d.spare(e.size() + min(e.size(), longLog*indexPage))
		}
		if err == nil {
			e.parts = d.lastPart.Add(1)
			err = d.putParts(e.parts, packEntry(e))
		}
		if err != nil {
			if !errors.Is(err, ErrFailed) && !errors.Is(err, ErrClosed) {
				d.dropAside(batch, nil) // no record has named them
			}
			return err
		}
	}
	return nil
}

// spare fails with ErrNoSpace if the disk lacks room for so many bytes. A record for
// which there is none would otherwise take what is left, and more than the parts of
// it that are dropped give back: the write-ahead log only grows, and is not emptied
// while pawl.db cannot grow. Then no run could commit any more.
func (d *Dir) spare(bytes int64) error {
	name := path.Join(tmpDir, fmt.Sprintf("%v-spare-%d", d.epoch, d.spared.Add(1)))
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err == nil {
		err = errors.Join(allocate(f, bytes), f.Close(), d.root.Remove(name))
	}
	if err = typed(err); errors.Is(err, ErrNoSpace) {
		return err
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		d.options.Logger.Warn("how much room the disk has cannot be told", "file", d.at(name), "error", err)
	}
	return nil
}

func (d *Dir) putParts(parts int64, data []byte) error {
	for key, _ := partKeys(parts); len(data) > 0; key++ {
		part := data[:min(int(hook.PartBytes.Load()), len(data))]
		data = data[len(part):]
		err := d.updateLarge(len(part), func(db *sqlite.Conn) error {
			_, err := db.Exec(putPart, key, part)
			return err
		})
		if err != nil {
			return err
		}
		failpoint.Hit("commit.part")
	}
	return nil
}

// takeBack drops what was put aside for records of run num whose commit has failed,
// as far as that goes: where it is not known whether it has, pawl.db tells.
func (d *Dir) takeBack(num int64, batch []entry, cause error) {
	if errors.Is(cause, ErrFailed) || errors.Is(cause, ErrClosed) {
		return // nothing works any more
	}
	named := map[int64]bool{}
	if errors.Is(cause, ErrUnknown) {
		err := d.read(func(db *sqlite.Conn) error {
			return db.Each(namedParts, func(r *sqlite.Row) error { named[r.Int64(0)] = true; return nil },
				logKey(num, batch[0].Seq), logKey(num, batch[len(batch)-1].Seq))
		})
		if err != nil {
			return
		}
	}
	d.dropAside(batch, named)
}

// dropAside drops what was put aside for records, but what is named.
func (d *Dir) dropAside(batch []entry, named map[int64]bool) {
	var parts []int64
	for i := range batch {
		if n := batch[i].parts; n != 0 && !named[n] {
			parts = append(parts, n)
		}
	}
	d.dropParts(parts)
}

// dropParts drops the parts of some records. If that fails they are dropped later.
func (d *Dir) dropParts(records []int64) {
	if len(records) == 0 {
		return
	}
	d.heap.add(records...)
	if err := d.clearHeap(); err != nil {
		d.options.Logger.Warn("what was put aside for large records is not dropped yet", "file", d.at(indexFile), "error", err)
	}
}

func (d *Dir) clearHeap() error {
	for {
		parts, ok := d.heap.take()
		if !ok {
			return nil
		}
		first, last := partKeys(parts)
		for n := int64(droppedOnce); n == droppedOnce; {
			err := d.update(func(db *sqlite.Conn) (err error) {
				n, err = db.Exec(dropSomePart, first, last, int64(droppedOnce))
				return err
			})
			if err != nil {
				d.heap.add(parts)
				return err
			}
			failpoint.Hit("parts.drop")
		}
	}
}

// trimLog drops records of a run from the log at once, and returns the numbers of what was
// put aside for them.
func trimLog(db *sqlite.Conn, num, last int64) (parts []int64, err error) {
	first, end := logKey(num, 0), logKey(num, last)
	err = db.Each(namedParts, func(r *sqlite.Row) error { parts = append(parts, r.Int64(0)); return nil }, first, end)
	if err == nil {
		_, err = db.Exec(deleteLog, first, end)
	}
	return parts, err
}

// packEntry joins the message, the decisions and the large values of a record, each
// after its length.
func packEntry(e *entry) []byte {
	out := make([]byte, 0, int(e.size())+16)
	for _, b := range [][]byte{e.Message, e.Decisions} {
		out = pace.Append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return appendValues(out, e.Values)
}

// unpackEntry is the inverse of packEntry.
func unpackEntry(e *entry, data []byte) (err error) {
	for _, b := range []*[]byte{&e.Message, &e.Decisions} {
		if *b, data, err = cutLength(data); err != nil {
			return err
		}
		*b = bytes.Clone(*b) // or it would keep the large values, which are copied
	}
	e.Values, err = unpackValues(data)
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

// packValues joins large values, each after its length; nil if there are none.
func packValues(vs *codec.Values) []byte { return appendValues(nil, vs) }

func appendValues(out []byte, vs *codec.Values) []byte {
	for _, raw := range vs.All() {
		out = pace.Append(binary.AppendUvarint(out, uint64(len(raw))), raw...)
	}
	return out
}

// unpackValues is the inverse of packValues. The hashes are computed: a value
// that has changed is not found under the hash that a record names.
func unpackValues(data []byte) (*codec.Values, error) {
	vs := &codec.Values{}
	for len(data) > 0 {
		raw, rest, err := cutLength(data)
		if err != nil {
			return nil, err
		}
		vs.Add(raw)
		data = rest
	}
	return vs, nil
}

// gatherParts completes a record that was put aside. damage says that this cannot
// be done.
func (d *Dir) gatherParts(e *entry) (damage, err error) {
	var parts [][]byte
	next, last := partKeys(e.parts)
	for n := readOnce; n == readOnce && damage == nil; {
		n = 0
		if d.gathering != nil {
			d.gathering()
		}
		err := d.read(func(db *sqlite.Conn) error {
			return db.Each(getParts, func(r *sqlite.Row) error {
				if r.Int64(0) != next {
					damage = fmt.Errorf("record %d lacks a part", e.Seq)
				}
				parts = append(parts, r.Bytes(1))
				n++
				next++
				return nil
			}, next, last, int64(readOnce))
		})
		if err != nil {
			return nil, err
		}
	}
	if damage == nil {
		if damage = unpackEntry(e, bytes.Join(parts, nil)); damage != nil {
			damage = fmt.Errorf("record %d: %w", e.Seq, damage)
		}
	}
	return damage, nil
}
