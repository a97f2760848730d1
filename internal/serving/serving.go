// Package serving lets packages of this module that give tasks to workers, such as package worker, ask the engine what no handler needs.
package serving

import "context"

// A Host is an engine, as a pool of workers asks it.
type Host interface {
	// KeepBlob keeps a blob at least until an attempt is over, as if pawl.Task.Put had put it. It is for executors
	// whose workers put blobs into the engine's store themselves.
	KeepBlob(key, hash string)
	// ReportWorker says who performs an attempt from now on, for Inspect to show; "" says that it
	// waits for somebody, or does so again. It changes nothing else, and is forgotten when the engine closes.
	ReportWorker(key, name string)
	// TenantConcurrency returns how many tasks of a tenant may run at once, 0 without a bound. The engine counts
	// a task until Execute has returned, with TenantLimit.Pending until the task is over, and package worker until its worker lets go of it.
	TenantConcurrency(tenant string) int
	// WasDispatched reports whether the task of an attempt whose Execute was called was dispatched before, by this engine or by another one of
	// its directory: a worker may be at it, or have a result on its way.
	WasDispatched(key string) bool
	// ConfirmLog fails unless the engine has the log outside of its directory, if there is one: another engine may have taken it, and
	// know better. A pool asks before it refuses a worker by what it remembers itself.
	ConfirmLog(ctx context.Context) error
}

type hostKey struct{}

// With returns a context for the tasks of an engine.
func With(ctx context.Context, h Host) context.Context { return context.WithValue(ctx, hostKey{}, h) }

// Of returns the engine whose Executor is called in a context. In any other context the host does nothing and bounds nothing.
func Of(ctx context.Context) Host {
	if h, ok := ctx.Value(hostKey{}).(Host); ok {
		return h
	}
	return absent{}
}

type absent struct{}

// KeepBlob implements Host.
func (absent) KeepBlob(string, string) {}

// ReportWorker implements Host.
func (absent) ReportWorker(string, string) {}

// TenantConcurrency implements Host.
func (absent) TenantConcurrency(string) int { return 0 }

// WasDispatched implements Host.
func (absent) WasDispatched(string) bool { return false }

// ConfirmLog implements Host.
func (absent) ConfirmLog(context.Context) error { return nil }
