package pawl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/store"
)

// A TypeLimit bounds how the tasks of one type are performed. The zero value of
// each field is no bound.
type TypeLimit struct {
	// Concurrency is how many tasks of this type run at once; in a pool of package
	// worker, how many of them its workers hold.
	Concurrency int
	// Rate is how many tasks of this type begin per second, on average.
	Rate float64
	// Burst is how many may begin at once after a pause; 1 by default. It needs a
	// Rate.
	Burst int
}

// checkTypes returns an error if a limit of a task type is impossible.
func checkTypes(types map[string]TypeLimit) error {
	for _, kind := range slices.Sorted(maps.Keys(types)) {
		if problem := taskqueue.Limit(types[kind]).Fault(kind); problem != "" {
			return fmt.Errorf("%w: Options.Types[%q]: %s", ErrInvalid, kind, problem)
		}
	}
	return nil
}

// A TenantLimit bounds what one tenant has at once, see workflow.Run.Tenant. The zero value of each
// field is no bound.
type TenantLimit struct {
	// Concurrency is how many of its tasks run at once in this process. The same number limits, counted separately unless
	// Pending is set, the tasks that the workers of a pool of package worker hold. A task that waits takes no slot.
	Concurrency int
	// Pending makes a task whose handler has returned ErrPending count for Concurrency until it is over. A task counts as
	// well if no worker takes it, or if its callback never comes. Tasks in this process and tasks of a pool then share one
	// limit and one order of turns; tasks above the limit wait in the engine.
	Pending bool
	// Active is how many of its runs may be active at once; beyond it, Start returns a *TenantBusyError. A run that only waits,
	// without a task that is queued, running or pending, does not count. As with Options.MaxActive, child runs and runs that
	// continue count, but are not held back.
	Active int
	// Bytes is how many bytes of the disk its runs may take together, ended runs included until they are purged: their
	// files and their part of the log, without blobs. Beyond it, Start and Fork return a *TenantFullError. Existing runs
	// go on and lose nothing: an unfinished one may take more, up to its limit runBytes.
	Bytes int64
}

// A TenantBusyError says that a tenant has as many active runs as it may have. It is ErrBusy for
// errors.Is: call Start again when one of them has ended or sleeps.
type TenantBusyError struct {
	Tenant string
	Active int // runs
	Max    int // TenantLimit.Active
}

// Error names the tenant.
func (e *TenantBusyError) Error() string {
	return fmt.Sprintf("busy: %d runs of tenant %q are active, and no more than %d may be (Options.Tenants)", e.Active, e.Tenant, e.Max)
}

// Unwrap returns ErrBusy.
func (e *TenantBusyError) Unwrap() error { return ErrBusy }

// A TenantFullError says that the runs of a tenant take as many bytes of the disk as they may. It is
// ErrBusy for errors.Is, and nothing was changed: call Start again when ended runs of the tenant are purged
// (Engine.Purge), or its limit is higher.
type TenantFullError struct {
	Tenant string
	Bytes  int64 // that its runs take
	Max    int64 // TenantLimit.Bytes
}

// Error names the tenant.
func (e *TenantFullError) Error() string {
	return fmt.Sprintf("busy: the runs of tenant %q take %d bytes of the disk, and may take %d (Options.Tenants): purge some that have ended", e.Tenant, e.Bytes, e.Max)
}

// Unwrap returns ErrBusy.
func (e *TenantFullError) Unwrap() error { return ErrBusy }

// checkNumbers returns an error if a number of the options is impossible.
func (o Options) checkNumbers() error {
	if o.Durability > ProcessCrash {
		return fmt.Errorf("%w: Options.Durability is %d: give PowerLoss or ProcessCrash", ErrInvalid, o.Durability)
	}
	b := o.Bounds
	return refusal.CheckNotNegative("Options.", map[string]int64{
		"Concurrency": int64(o.Concurrency), "MaxActive": int64(o.MaxActive), "IdleAfter": int64(o.IdleAfter), "Grace": int64(o.Grace), "StallAfter": int64(o.StallAfter),
		"Bounds.Nodes": int64(b.Nodes), "Bounds.Transitions": int64(b.Transitions), "Bounds.Bytes": int64(b.Bytes), "Bounds.Expressions": int64(b.Expressions), "Bounds.Subschemas": int64(b.Subschemas),
	})
}

// checkTenants returns an error if a limit of a tenant is impossible.
func checkTenants(limits map[string]TenantLimit) error {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if err := texts.CheckTenant(name); err != nil {
			return fmt.Errorf("Options.Tenants: %w", err)
		}
		if name == "" {
			return fmt.Errorf("%w: Options.Tenants: a name is empty: Concurrency and MaxActive bound what has no tenant", ErrInvalid)
		}
		l := limits[name]
		if l.Concurrency < 0 || l.Active < 0 || l.Bytes < 0 {
			return fmt.Errorf("%w: Options.Tenants[%q]: Concurrency is %d, Active %d and Bytes %d: give how many tasks and runs the tenant may have at once, and how many bytes on the disk, or 0 for no bound",
				ErrInvalid, name, l.Concurrency, l.Active, l.Bytes)
		}
		if l.Pending && l.Concurrency == 0 {
			return fmt.Errorf("%w: Options.Tenants[%q]: there is Pending without a Concurrency, for which it would count", ErrInvalid, name)
		}
	}
	return nil
}

// tenantLimitOf returns the limit of a tenant, or that of "*" if it has no entry. Runs without a tenant have no
// limit.
func tenantLimitOf(limits map[string]TenantLimit, tenant string) TenantLimit {
	l, ok := limits[tenant]
	if !ok && tenant != "" {
		l = limits["*"]
	}
	return l
}

// boundsBytes reports whether a limit says how many bytes a tenant may have.
func boundsBytes(limits map[string]TenantLimit) bool {
	for _, l := range limits {
		if l.Bytes > 0 {
			return true
		}
	}
	return false
}

// A Codec stands between values and the disk; package aesgcm has one that encrypts. Values are plain
// in the engine's memory, in expressions, and for tasks and callers.
//
// The engine encodes, each with the id of the key: every record of a run's journal, that is inputs,
// results, signals, votes with their comments, failures, heartbeat details, metadata and what
// operators say; the files of runs, as a whole; output, failure, artifacts and the hash of the input
// in the index of runs; the lists of approvals and dead letters; kept outcomes; definitions; and the
// content of blobs in the directory. Backups have the same bytes, or bytes that were encoded anew. A
// store in Options.Blobs gets content plain, and names it by its hash: it has to encrypt it itself, as
// one of blob.OpenFiles with a codec does, whose names are the same.
//
// These remain in clear: the ids and labels of runs, and the parents of children; names, versions and hashes of definitions;
// statuses, instants, sizes and counts; in the lists the ids of nodes, task types and the codes of dead letters; keys of
// outcomes, as of Once; and the hashes of blobs, with which an attacker can confirm a guess of the content. Do not put secrets
// there. The engine does not encode the logs of tasks.
//
// A Codec must be lossless: Decode returns exactly the bytes that Encode was given, since runs are
// replayed from stored data. It therefore cannot redact. Keep data that must never be stored out of
// values: store a reference instead. A codec may compress before it encrypts, but the sizes then
// reveal something about the content.
//
// Many goroutines call its methods at once, for every commit. The methods must neither modify nor
// retain their arguments.
type Codec interface {
	// KeyID names the key that Encode uses: 1 to 64 letters, digits, dots, hyphens and underscores; Open fails otherwise. It is
	// stored in clear with all that Encode returns, and must not change while an engine has the codec.
	KeyID() string
	// Encode returns the bytes to store in place of plain. The place names the value and its run;
	// Decode gets the same place. A codec that authenticates the place binds the bytes to
	// it, so that nobody can move the bytes of one run into another. If Encode fails, the commit
	// fails as it would on a failing disk, and is tried again later. 16 KiB may grow to 1 MiB at most.
	Encode(place string, plain []byte) (stored []byte, err error)
	// Decode returns the bytes that Encode was given, under whichever key they were stored. It fails
	// if it lacks that key, or if Encode did not return stored for this place; nothing is then
	// overwritten or repaired away, and the caller gets a *SealedError.
	Decode(keyID, place string, stored []byte) (plain []byte, err error)
}

// A SealedError says that a value was stored with a Codec and cannot be read. Nothing is lost: with the
// key, the value can be read again.
type SealedError struct {
	KeyID string // of the key that it needs
	Place string // the name of the value, and of its run
	Err   error  // why the codec cannot read it; nil if there is no codec
}

// Error names the key, the value and the cause.
func (e *SealedError) Error() string { return (*store.SealedError)(e).Error() }

// Unwrap returns ErrSealed and the cause.
func (e *SealedError) Unwrap() []error { return []error{ErrSealed, e.Err} }

// ErrSealed says that a value was stored with a Codec and cannot be read: Options.Codec
// is not set, lacks the key, or gets other bytes than it made. It is always a *SealedError.
var ErrSealed = store.ErrSealed
