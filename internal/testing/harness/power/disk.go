package power

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An Op is something that a process has done to files.
type Op struct {
	Kind    Kind
	Path    string
	To      string // of Renamed and Linked
	At      int64  // where, of Wrote; the new size, of CutTo
	Data    []byte
	Covers  int  // of Synced and SyncedAll: how many operations had returned when it began
	Durable bool // of Wrote: it was synced with the call, since the file is open for that
}

// A Kind says what an Op does.
type Kind string

// The kinds of operations.
const (
	Created      Kind = "created"
	MadeDir      Kind = "made"
	Wrote        Kind = "wrote"
	CutTo        Kind = "cut"
	Renamed      Kind = "renamed"
	Linked       Kind = "linked"
	Removed      Kind = "removed"
	Synced       Kind = "synced"
	SyncedAll    Kind = "synced all"
	Acknowledged Kind = "acknowledged" // the host was told, in Data
)

// A node is a file or a directory on a disk that loses what is not synced.
type node struct {
	dir     bool
	data    []byte // durable
	writes  []Op   // not durable yet, in order
	entries map[string]*node
	names   []naming // not durable yet, in order
	now     map[string]*node
	index   []int // of writes or names: which operation it was
}

// A naming gives a name in a directory to a node, or to none.
type naming struct {
	name string
	node *node
}

func newDir() *node { return &node{dir: true, entries: map[string]*node{}, now: map[string]*node{}} }

// syncUpTo makes everything durable that was done before an operation.
func (n *node) syncUpTo(covers int) {
	k := 0
	for k < len(n.index) && n.index[k] < covers {
		if n.dir {
			n.entries = applyName(n.entries, n.names[k])
		} else {
			n.data = applyWrite(n.data, n.writes[k])
		}
		k++
	}
	n.index = n.index[k:]
	if n.dir {
		n.names = n.names[k:]
	} else {
		n.writes = n.writes[k:]
	}
}

// applyName returns the names of a directory after one was given or taken.
func applyName(entries map[string]*node, x naming) map[string]*node {
	if x.node == nil {
		delete(entries, x.name)
	} else {
		entries[x.name] = x.node
	}
	return entries
}

// applyWrite returns the bytes of a file after a write or a cut.
func applyWrite(data []byte, o Op) []byte {
	end := o.At + int64(len(o.Data)) // of a cut: the size
	if n := end - int64(len(data)); n > 0 {
		data = append(data, make([]byte, n)...)
	}
	if o.Kind == CutTo {
		return data[:o.At]
	}
	copy(data[o.At:], o.Data)
	return data
}

// A Disk plays operations below a root that is durable.
type Disk struct {
	// Journaled disks keep the names that there are when any file is synced, as those of ext4, XFS and Btrfs do. Others keep a name when its
	// folder is synced, which is all that POSIX promises.
	Journaled bool

	path  string
	root  *node
	nodes []*node
}

// NewDisk returns an empty disk for the operations below a path.
func NewDisk(path string) *Disk {
	d := &Disk{path: path, root: newDir()}
	d.nodes = []*node{d.root}
	return d
}

// findFolder returns the directory of a path, as it is now, and the name in it. An unknown
// path has no directory.
func (d *Disk) findFolder(path string) (dir *node, name string) {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, d.path), "/")
	dir = d.root
	for {
		first, rest, more := strings.Cut(rel, "/")
		if !more || dir == nil {
			return dir, first
		}
		dir, rel = dir.now[first], rest
	}
}

// fileAt returns what is at a path now, nil if nothing is.
func (d *Disk) fileAt(path string) *node {
	dir, name := d.findFolder(path)
	if dir == nil || name == "" {
		return dir
	}
	return dir.now[name]
}

// linkNode gives a path to a node, or to none.
func (d *Disk) linkNode(path string, n *node, number int) {
	dir, name := d.findFolder(path)
	dir.now = applyName(dir.now, naming{name, n})
	dir.names = append(dir.names, naming{name, n})
	dir.index = append(dir.index, number)
}

// addNode gives a path to a new node, unless something is there.
func (d *Disk) addNode(path string, n *node, number int) {
	if d.fileAt(path) == nil {
		d.nodes = append(d.nodes, n)
		d.linkNode(path, n, number)
	}
}

// Play does the operation with a number, from 0.
func (d *Disk) Play(o Op, number int) {
	switch o.Kind {
	case Created:
		d.addNode(o.Path, &node{}, number)
	case MadeDir:
		d.addNode(o.Path, newDir(), number)
	case Wrote, CutTo:
		if n := d.fileAt(o.Path); n != nil {
			if o.Durable {
				n.data = applyWrite(n.data, o)
			}
			n.writes, n.index = append(n.writes, o), append(n.index, number) // also a durable one: it counts against those before it
		}
	case Renamed:
		n := d.fileAt(o.Path)
		d.linkNode(o.To, n, number)
		d.linkNode(o.Path, nil, number)
	case Linked:
		d.linkNode(o.To, d.fileAt(o.Path), number)
	case Removed:
		d.linkNode(o.Path, nil, number)
	case Synced:
		if n := d.fileAt(o.Path); n != nil {
			n.syncUpTo(o.Covers)
		}
		if d.Journaled {
			d.syncNames(o.Covers)
		}
	case Acknowledged: // it does nothing to the disk
	case SyncedAll:
		for _, n := range d.nodes {
			n.syncUpTo(o.Covers)
		}
	}
}

// syncNames makes the names durable that were given before an operation.
func (d *Disk) syncNames(covers int) {
	for _, n := range d.nodes {
		if n.dir {
			n.syncUpTo(covers)
		}
	}
}

// A Loss is how a disk loses what was not synced.
type Loss struct {
	Names string // of folders: one of KeptNames
	Bytes string // of files: one of KeptBytes
	Until int    // of order: operations from this one on are lost
	Unit  int64  // of the pieces that a write is torn into, in bytes
	Rand  *rand.Rand
}

// KeptNames returns what a disk may keep of names that were not synced.
func KeptNames() []string { return []string{"none", "all", "order", "any"} }

// KeptBytes returns what a disk may keep of bytes that were not synced.
func KeptBytes() []string { return []string{"none", "all", "order", "any", "zeros", "mixed"} }

// DrawLoss draws how a disk loses what was not synced by the k-th operation.
func DrawLoss(k int, r *rand.Rand) Loss {
	return Loss{
		Names: KeptNames()[r.IntN(len(KeptNames()))],
		Bytes: KeptBytes()[r.IntN(len(KeptBytes()))],
		Until: k - r.IntN(min(k, 40)+1), Unit: []int64{512, 4096}[r.IntN(2)], Rand: r,
	}
}

// keepsOp reports whether something that is not durable is kept anyway.
func (l *Loss) keepsOp(how string, number int) bool {
	switch how {
	case "none":
		return false
	case "order":
		return number < l.Until
	case "any":
		return l.Rand.IntN(2) == 0
	}
	return true
}

// Lose writes what is left of a disk to a folder.
func (l *Loss) Lose(d *Disk, to string) error { return l.loseNode(d.root, to) }

// loseNode writes what is left of a folder to a place.
func (l *Loss) loseNode(n *node, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries := maps.Clone(n.entries)
	for i, x := range n.names {
		if l.keepsOp(l.Names, n.index[i]) {
			entries = applyName(entries, x)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var err error
		if at := filepath.Join(to, name); entries[name].dir {
			err = l.loseNode(entries[name], at)
		} else {
			err = os.WriteFile(at, l.bytesLeft(entries[name]), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bytesLeft returns the bytes that are left of a file.
func (l *Loss) bytesLeft(n *node) []byte {
	how := l.Bytes
	if how == "mixed" {
		how = []string{"none", "all", "order", "any", "zeros"}[l.Rand.IntN(5)]
	}
	data := slices.Clone(n.data)
	for i, o := range n.writes {
		last := how == "order" && n.index[i] < l.Until && (i+1 == len(n.writes) || n.index[i+1] >= l.Until)
		switch {
		case how == "zeros" && !o.Durable && o.Kind == Wrote:
			data = applyWrite(data, Op{Kind: Wrote, At: o.At + int64(len(o.Data))}) // longer, with zeros where nothing was
		case !o.Durable && !l.keepsOp(how, n.index[i]):
		case o.Kind == Wrote && !o.Durable && (last || how == "any" && l.Rand.IntN(2) == 0):
			data = l.tearWrite(data, o)
		default:
			data = applyWrite(data, o)
		}
	}
	return data
}

// tearWrite does a part of a write: about half of the units of the disk.
func (l *Loss) tearWrite(data []byte, o Op) []byte {
	for from := o.At; from < o.At+int64(len(o.Data)); {
		to := min(from-from%l.Unit+l.Unit, o.At+int64(len(o.Data)))
		if l.Rand.IntN(2) == 0 {
			data = applyWrite(data, Op{Kind: Wrote, At: from, Data: o.Data[from-o.At : to-o.At]})
		}
		from = to
	}
	return data
}
