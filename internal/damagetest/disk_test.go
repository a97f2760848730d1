package damagetest

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An op is something that a process has done to files.
type op struct {
	kind   opKind
	path   string
	to     string // of renamed and linked
	at     int64  // where, of wrote; the new size, of cutTo
	data   []byte
	covers int // of synced and syncedAll: how many operations had returned when it began
}

type opKind string

const (
	created      opKind = "created"
	madeDir      opKind = "made"
	wrote        opKind = "wrote"
	cutTo        opKind = "cut"
	renamed      opKind = "renamed"
	linked       opKind = "linked"
	removed      opKind = "removed"
	synced       opKind = "synced"
	syncedAll    opKind = "synced all"
	acknowledged opKind = "acknowledged" // the host was told, in data
)

// A node is a file or a directory on a disk that loses what is not synced.
type node struct {
	dir     bool
	data    []byte // durable
	writes  []op   // not durable yet, in order
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

// sync makes everything durable that was done before an operation.
func (n *node) sync(covers int) {
	k := 0
	for k < len(n.index) && n.index[k] < covers {
		if n.dir {
			n.entries = named(n.entries, n.names[k])
		} else {
			n.data = written(n.data, n.writes[k])
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

func named(entries map[string]*node, x naming) map[string]*node {
	if x.node == nil {
		delete(entries, x.name)
	} else {
		entries[x.name] = x.node
	}
	return entries
}

// written returns the bytes of a file after a write or a cut.
func written(data []byte, o op) []byte {
	end := o.at + int64(len(o.data)) // of a cut: the size
	if n := end - int64(len(data)); n > 0 {
		data = append(data, make([]byte, n)...)
	}
	if o.kind == cutTo {
		return data[:o.at]
	}
	copy(data[o.at:], o.data)
	return data
}

// A disk plays operations below a root that is durable.
type disk struct {
	path  string
	root  *node
	nodes []*node
}

func newDisk(path string) *disk {
	d := &disk{path: path, root: newDir()}
	d.nodes = []*node{d.root}
	return d
}

// find returns the directory of a path, as it is now, and the name in it. A path
// of which nothing is known has no directory.
func (d *disk) find(path string) (dir *node, name string) {
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

// file returns what is at a path now, nil if nothing is.
func (d *disk) file(path string) *node {
	dir, name := d.find(path)
	if dir == nil || name == "" {
		return dir
	}
	return dir.now[name]
}

// link gives a path to a node, or to none.
func (d *disk) link(path string, n *node, number int) {
	dir, name := d.find(path)
	dir.now = named(dir.now, naming{name, n})
	dir.names = append(dir.names, naming{name, n})
	dir.index = append(dir.index, number)
}

func (d *disk) make(path string, n *node, number int) {
	if d.file(path) == nil {
		d.nodes = append(d.nodes, n)
		d.link(path, n, number)
	}
}

// play does the operation with a number.
func (d *disk) play(o op, number int) {
	switch o.kind {
	case created:
		d.make(o.path, &node{}, number)
	case madeDir:
		d.make(o.path, newDir(), number)
	case wrote, cutTo:
		if n := d.file(o.path); n != nil {
			n.writes, n.index = append(n.writes, o), append(n.index, number)
		}
	case renamed:
		n := d.file(o.path)
		d.link(o.to, n, number)
		d.link(o.path, nil, number)
	case linked:
		d.link(o.to, d.file(o.path), number)
	case removed:
		d.link(o.path, nil, number)
	case synced:
		if n := d.file(o.path); n != nil {
			n.sync(o.covers)
		}
	case syncedAll:
		for _, n := range d.nodes {
			n.sync(o.covers)
		}
	}
}

// A loss is how a disk loses what was not synced.
type loss struct {
	names string // of directories: one of keptNames
	bytes string // of files: one of keptBytes
	until int    // of order: operations from this one on are lost
	unit  int64  // of which a write is torn into, in bytes
	rng   *rand.Rand
}

// What a disk may keep of names, and of bytes, that were not synced.
var (
	keptNames = []string{"none", "all", "order", "any"}
	keptBytes = []string{"none", "all", "order", "any", "zeros", "mixed"}
)

func drawLoss(k int, rng *rand.Rand) loss {
	return loss{
		names: keptNames[rng.IntN(len(keptNames))],
		bytes: keptBytes[rng.IntN(len(keptBytes))],
		until: k - rng.IntN(min(k, 40)+1), unit: []int64{512, 4096}[rng.IntN(2)], rng: rng,
	}
}

// keeps reports whether something that is not durable is kept anyway.
func (l *loss) keeps(how string, number int) bool {
	switch how {
	case "none":
		return false
	case "order":
		return number < l.until
	case "any":
		return l.rng.IntN(2) == 0
	}
	return true
}

// lose writes what is left of a directory to a place.
func (l *loss) lose(n *node, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries := maps.Clone(n.entries)
	for i, x := range n.names {
		if l.keeps(l.names, n.index[i]) {
			entries = named(entries, x)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var err error
		if at := filepath.Join(to, name); entries[name].dir {
			err = l.lose(entries[name], at)
		} else {
			err = os.WriteFile(at, l.left(entries[name]), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// left returns the bytes that are left of a file.
func (l *loss) left(n *node) []byte {
	how := l.bytes
	if how == "mixed" {
		how = []string{"none", "all", "order", "any", "zeros"}[l.rng.IntN(5)]
	}
	data := slices.Clone(n.data)
	for i, o := range n.writes {
		last := how == "order" && n.index[i] < l.until && (i+1 == len(n.writes) || n.index[i+1] >= l.until)
		switch {
		case how == "zeros" && o.kind == wrote:
			data = written(data, op{kind: wrote, at: o.at + int64(len(o.data))}) // longer, with zeros where nothing was
		case !l.keeps(how, n.index[i]):
		case o.kind == wrote && (last || how == "any" && l.rng.IntN(2) == 0):
			data = l.tear(data, o)
		default:
			data = written(data, o)
		}
	}
	return data
}

// tear does a part of a write: about half of the units of the disk.
func (l *loss) tear(data []byte, o op) []byte {
	for from := o.at; from < o.at+int64(len(o.data)); {
		to := min(from-from%l.unit+l.unit, o.at+int64(len(o.data)))
		if l.rng.IntN(2) == 0 {
			data = written(data, op{kind: wrote, at: from, data: o.data[from-o.at : to-o.at]})
		}
		from = to
	}
	return data
}
