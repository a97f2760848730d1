package natscluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/nats/internal/jet"
	"github.com/pawl-run/pawl/nats/natslog"
)

// Options configure Open. The zero value of every field works.
type Options struct {
	// Name tells the clusters apart that share a NATS system: each engine directory has its own. Letters, digits, _
	// and -, at most 24; "pawl" by default.
	Name string
	// Replicas is on how many servers everything is, on their disks: 1 by default; 3 where the directory must outlive
	// a server. It counts when it is made.
	Replicas int
	// MaxBytes bounds the log; 0 is no bound of its own. It counts when the log is made.
	MaxBytes int64
}

const (
	defaultName = "pawl"
	maxName     = 24 // leaves room for what is added to the name
)

// Open opens what the nodes of a cluster share, over a connection, which stays the caller's: the log PAWLLOG_<name>, the buckets
// <name>-bases and <name>-blobs, and the lease in the key-value bucket <name>-lease. It makes what is not there.
// Connect with nats.MaxReconnects(-1). Errors: pawl.ErrInvalid, or what JetStream says.
//
// The log is opened once here, so that a stream that cannot be one is found at the start; NewLog opens
// another for each
// life of the engine, which
// begins with one that has taken nothing.
func Open(ctx context.Context, conn *nats.Conn, o Options) (b cluster.Backend, err error) {
	o.Name, o.Replicas = cmp.Or(o.Name, defaultName), cmp.Or(o.Replicas, 1)
	if len(o.Name) > maxName {
		return b, fmt.Errorf("%w: natscluster.Options.Name is %q: use at most %d letters, digits, _ and -", pawl.ErrInvalid, o.Name, maxName)
	}
	newLog := func(ctx context.Context) (commitlog.Log, error) {
		return natslog.Open(ctx, conn, natslog.Options(o))
	}
	if _, err := newLog(ctx); err != nil {
		return b, err
	}
	bases, err := natslog.OpenBlobs(ctx, conn, natslog.BlobsOptions{Bucket: o.Name + "-bases", Replicas: o.Replicas})
	if err != nil {
		return b, err
	}
	blobs, err := natslog.OpenBlobs(ctx, conn, natslog.BlobsOptions{Bucket: o.Name + "-blobs", Replicas: o.Replicas})
	if err != nil {
		return b, err
	}
	lease, err := OpenCell(ctx, conn, CellOptions{Bucket: o.Name + "-lease", Key: "owner", Replicas: o.Replicas})
	if err != nil {
		return b, err
	}
	return cluster.Backend{NewLog: newLog, Bases: bases, Blobs: blobs, Lease: lease}, nil
}

// CellOptions configure a Cell.
type CellOptions struct {
	Bucket   string // name of the key-value bucket: letters, digits, _ and -, at most 32
	Key      string // likewise
	Replicas int    // on how many servers it is, on their disks: 1 by default. It counts when the bucket is made
}

// A Cell is a [cluster.Cell]: a key of a key-value bucket of JetStream. Any number of goroutines and processes
// may use one.
//
// Each change of a key has a number, the revision; a writer names the one that it has read, and the
// server compares. That is all that a lease needs: of two nodes that write at once, one is told that
// it has changed.
type Cell struct {
	bucket jetstream.KeyValue
	key    string
}

var _ cluster.Cell = (*Cell)(nil)

// OpenCell opens a cell over a connection, which stays the caller's. It makes the bucket if it is missing. Errors: pawl.ErrInvalid, or
// what JetStream says.
//
// Two processes that open a new cell at once both succeed if their
// options are the same.
func OpenCell(ctx context.Context, conn *nats.Conn, o CellOptions) (*Cell, error) {
	o.Replicas = cmp.Or(o.Replicas, 1)
	switch {
	case conn == nil:
		return nil, fmt.Errorf("%w: natscluster.OpenCell without a connection", pawl.ErrInvalid)
	case !jet.IsName(o.Bucket) || !jet.IsName(o.Key):
		return nil, fmt.Errorf("%w: Bucket and Key of natscluster.CellOptions are %q and %q: use 1 to 32 letters, digits, _ and -", pawl.ErrInvalid, o.Bucket, o.Key)
	case o.Replicas < 1 || o.Replicas > 5:
		return nil, fmt.Errorf("%w: natscluster.CellOptions.Replicas is %d: JetStream takes 1 to 5", pawl.ErrInvalid, o.Replicas)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open the cell %s: %w", o.Bucket, err)
	}
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	bucket, err := js.KeyValue(ctx, o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: o.Bucket, Replicas: o.Replicas, History: 1, Storage: jetstream.FileStorage})
	}
	if err != nil {
		return nil, fmt.Errorf("make the bucket %s: %w", o.Bucket, err)
	}
	return &Cell{bucket, o.Key}, nil
}

// Read implements [cluster.Cell].
// The revision 0 means that there is no value, which Write takes to mean that there must be none.
func (c *Cell) Read(ctx context.Context) (cluster.Value, error) {
	entry, err := c.bucket.Get(ctx, c.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return cluster.Value{}, nil
	}
	if err != nil {
		return cluster.Value{}, fmt.Errorf("read the key %s of the bucket %s: %w", c.key, c.bucket.Bucket(), err)
	}
	return cluster.Value{Data: entry.Value(), Revision: entry.Revision(), Written: entry.Created()}, nil
}

// Write implements [cluster.Cell].
//
// An error other than ErrChanged leaves it open whether the value was written: the answer may be what
// was lost. The caller reads again and compares.
func (c *Cell) Write(ctx context.Context, value []byte, revision uint64) (changed uint64, err error) {
	if revision == 0 {
		changed, err = c.bucket.Create(ctx, c.key, value)
	} else {
		changed, err = c.bucket.Update(ctx, c.key, value, revision)
	}
	switch {
	case err == nil:
		return changed, nil
	case jet.IsChanged(err):
		return 0, cluster.ErrChanged
	}
	return 0, fmt.Errorf("write the key %s of the bucket %s: %w", c.key, c.bucket.Bucket(), err)
}
