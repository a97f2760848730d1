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

// isNone says that nothing is bounded.
func (l TypeLimit) isNone() bool { return l.Concurrency == 0 && l.Rate == 0 }

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
	// Concurrency is how many of its tasks run at once, and in a pool of package worker how many its workers
	// hold. A task that waits for that holds no slot.
	Concurrency int
	// Active is how many of its runs may be active at once; beyond it, Start answers a
	// *TenantBusyError. As with Options.MaxActive, child runs and those that go on count, but are not
	// held back.
	Active int
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
	return fmt.Sprintf("%v: %d runs of tenant %q are active, and no more than %d may be (Options.Tenants)", ErrBusy, e.Active, e.Tenant, e.Max)
}

// Unwrap returns ErrBusy.
func (e *TenantBusyError) Unwrap() error { return ErrBusy }

// checkTenants returns an error if limits of tenants are none that can hold.
func checkTenants(limits map[string]TenantLimit) error {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if err := checkTenant(name); err != nil {
			return fmt.Errorf("Options.Tenants: %w", err)
		}
		if name == "" {
			return fmt.Errorf("%w: Options.Tenants: a name is empty: Concurrency and MaxActive bound what has no tenant", ErrInvalid)
		}
		if l := limits[name]; l.Concurrency < 0 || l.Active < 0 {
			return fmt.Errorf("%w: Options.Tenants[%q]: Concurrency is %d and Active %d: give how many tasks and runs the tenant may have at once, or 0 for no bound", ErrInvalid, name, l.Concurrency, l.Active)
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

// typeLimitOf returns the limit of a task type, which "*" has for those without one.
func typeLimitOf(types map[string]TypeLimit, kind string) TypeLimit {
	l, ok := types[kind]
	if !ok {
		l = types["*"]
	}
	return l
}
