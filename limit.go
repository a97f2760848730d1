package pawl

import (
	"fmt"
	"maps"
	"math"
	"slices"
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

// checkTypes returns an error if limits of task types are none that can hold.
func checkTypes(types map[string]TypeLimit) error {
	for _, kind := range slices.Sorted(maps.Keys(types)) {
		if problem := types[kind].Problem(kind); problem != "" {
			return fmt.Errorf("%w: Options.Types[%q]: %s", ErrInvalid, kind, problem)
		}
	}
	return nil
}

// Problem says why a limit cannot be that of a task type; "" if it can.
func (l TypeLimit) Problem(kind string) string {
	switch {
	case kind == "" || len(kind) > 255:
		return "a task type has 1 to 255 bytes"
	case l.Concurrency < 0:
		return fmt.Sprintf("Concurrency is %d: give how many tasks may run at once, or 0 for no bound", l.Concurrency)
	case !(l.Rate >= 0) || math.IsInf(l.Rate, 1):
		return fmt.Sprintf("Rate is %v: give how many tasks may begin per second, or 0 for no bound", l.Rate)
	case l.Burst < 0:
		return fmt.Sprintf("Burst is %d: give how many tasks may begin at once after a pause, or 0 for 1", l.Burst)
	case l.Burst > 0 && l.Rate == 0:
		return "there is a Burst without a Rate"
	}
	return ""
}

// A TenantLimit bounds what one tenant has at once, see workflow.Run.Tenant. The zero value of each
// field is no bound.
type TenantLimit struct {
	// Concurrency is how many of its tasks run at once in this process, and, counted apart unless Pending is set, how
	// many the workers of a pool of package worker hold. A task that waits for that holds no slot.
	Concurrency int
	// Pending lets a task whose handler has returned ErrPending count for Concurrency until it is over. So one count,
	// and one order of turns, holds for the tasks in this process and those of a pool together: what is above
	// waits in the engine. A task for which no worker comes, or whose callback does not, takes a place as well.
	Pending bool
	// Active is how many of its runs may be active at once; beyond it, Start answers a
	// *TenantBusyError. As with Options.MaxActive, child runs and those that go on count, but are not
	// held back.
	Active int
	// Bytes is how many bytes of the disk its runs may take together, those that have ended as well until they are
	// purged: their files, and what of them the log holds, without blobs. From then on Start and Fork answer a
	// *TenantFullError. What runs already goes on, and nothing of it is lost: its unfinished runs may take more, each up
	// to its limit runBytes.
	Bytes int64
}

// A TenantBusyError says that as many runs of a tenant are active as may be. It is ErrBusy for
// errors.Is: Start again when one of them has ended, or waits for something.
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
// ErrBusy for errors.Is, and nothing was changed: Start again when runs of the tenant that have ended are purged
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

// checkTenants returns an error if limits of tenants are none that can hold.
func checkTenants(limits map[string]TenantLimit) error {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if err := checkTenant(name); err != nil {
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

// tenantLimitOf returns the limit of a tenant, which "*" has for those without one. What has no
// tenant has none.
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
