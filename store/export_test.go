package store

import (
	"context"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Checked is what Verify and Repair of package rescue have found.
type Checked struct {
	Damage   int
	Findings []string // each in one line
}

// Verify and Repair are those of package rescue, which imports this one: rescue_test.go
// sets them.
var (
	Verify func(path string) (Checked, error)
	Repair func(path, into string) (Checked, error)
)

// The tests outside of the package have these under other names.
type Owner = owner

var (
	AccessWarnings = accessWarnings
	Ahead          = ahead
	At             = at
	CopyDir        = copyDir
	Crashed        = crashed
	CreateToken    = createToken
	Dispatch       = dispatch
	LoadOwner      = load
	OpenDir        = open
	OpenWith       = openWith
	StartOwner     = start
	StartRun       = startRun
)

// Names of files.
const (
	IndexFile = indexFile
	LockName  = lockName
	TmpDir    = tmpDir
)

// Do, Try, File, Run and Same are those of an owner.
func (o *owner) Do(m state.Message, ds ...decision.Decision)        { o.do(m, ds...) }
func (o *owner) Try(m state.Message, ds ...decision.Decision) error { return o.try(m, ds...) }
func (o *owner) File() error                                        { return o.file() }
func (o *owner) Run() *Run                                          { return o.run }
func (o *owner) Same(d *Dir)                                        { o.same(d) }

// OpenSnapshot is openSnapshot.
func (d *Dir) OpenSnapshot(ctx context.Context, id workflow.RunID) (*Snapshot, error) {
	return d.openSnapshot(ctx, id)
}

// Path returns where the directory is.
func (d *Dir) Path() string { return d.path }

// LoseTapes has so much wait for a follower that it is dropped.
func (d *Dir) LoseTapes() { d.tapes.addTransaction(make([]byte, maxTapes+1)) }

// LogIsUnsynced reports whether pawl.db-wal has a transaction that is to be synced before the next one.
func (d *Dir) LogIsUnsynced() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.unsynced
}
