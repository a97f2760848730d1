package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var (
	errNotYours = errors.New("no such run") // the same for a run of others and for none
	errTooMany  = errors.New("too many")
)

// The most that a tenant may have.
const (
	maxRuns    = 100     // unfinished ones
	maxSignals = 100     // for one run, in one life of the desk
	maxDisk    = 1 << 30 // bytes, of all of its runs until they are purged
)

// A desk takes definitions and signals of tenants, whom the caller has authenticated.
// It has the only reference to the engine that a tenant can reach.
//
// No call of the engine that changes a run is made under the lock: one tenant's that waits
// would stop all others.
type desk struct {
	engine   *pawl.Engine
	offers   offers
	mu       sync.Mutex                        // texts are read one at a time: what reading takes is taken once
	starting map[string]int                    // starts of each tenant that are under way
	signals  map[string]map[workflow.RunID]int // that each tenant has sent to its unfinished runs
}

func openDesk(ctx context.Context, dir string, o offers) (*desk, error) {
	engine, err := pawl.Open(ctx, dir, pawl.Options{
		Executor:    o.handlers(),
		Bounds:      bounds(),
		MaxActive:   1_000,
		Concurrency: 64,
		Tenants:     map[string]pawl.TenantLimit{"*": {Concurrency: 16, Active: maxRuns, Bytes: maxDisk}},
		Types: map[string]pawl.TypeLimit{ // nobody's tasks of one kind take every slot
			"fetch": {Concurrency: 16, Rate: 50, Burst: 50},
			"count": {Concurrency: 4},
			"*":     {Concurrency: 32},
		},
	})
	if err != nil {
		return nil, err
	}
	return &desk{engine: engine, offers: o, starting: map[string]int{}, signals: map[string]map[workflow.RunID]int{}}, nil
}

// start begins a run of a tenant's definition, and returns its id, which the tenant does
// not choose. A *workflow.DefinitionError, *workflow.InputError or *workflow.LimitError
// says what is wrong with the text or the input; pawl.ErrBusy asks for patience.
func (d *desk) start(ctx context.Context, tenant string, text []byte, input any) (workflow.RunID, error) {
	def, err := d.beginStart(ctx, tenant, text)
	if err != nil {
		return "", err
	}
	defer d.endStart(tenant)
	id := workflow.RunID(tenant + ":" + uuid.NewString())
	return id, d.engine.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, input)
}

// beginStart reads a text, and keeps room for its run until endStart.
func (d *desk) beginStart(ctx context.Context, tenant string, text []byte) (*workflow.Definition, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.Contains(tenant, ":") {
		return nil, fmt.Errorf("the tenant %q has a colon in its name, which ends it in the ids of runs", tenant)
	}
	def, err := admit(tenant, text, d.offers.handlers())
	if err != nil {
		return nil, err
	}
	if err := d.checkRoom(ctx, tenant); err != nil {
		return nil, err
	}
	d.starting[tenant]++
	return def, nil
}

func (d *desk) endStart(tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.starting[tenant]--; d.starting[tenant] == 0 {
		delete(d.starting, tenant)
	}
}

// checkRoom counts the unfinished runs of a tenant, and forgets the signals of all others.
func (d *desk) checkRoom(ctx context.Context, tenant string) error {
	n, sent := d.starting[tenant], map[workflow.RunID]int{}
	unfinished := []workflow.RunStatus{workflow.RunRunning, workflow.RunPaused, workflow.RunSuspended}
	for r, err := range d.engine.Runs(ctx, pawl.RunFilter{Prefix: tenant + ":", Status: unfinished, Limit: maxRuns}) {
		if err != nil {
			return err
		}
		n++
		if k := d.signals[tenant][r.Run]; k > 0 {
			sent[r.Run] = k
		}
	}
	d.signals[tenant] = sent
	if n >= maxRuns {
		return fmt.Errorf("%w: %d unfinished runs", errTooMany, n)
	}
	return nil
}

// signal passes a signal on to a run of the tenant.
func (d *desk) signal(ctx context.Context, tenant string, id workflow.RunID, name string, payload any) error {
	if owner, _, _ := strings.Cut(string(id), ":"); owner != tenant {
		return errNotYours
	}
	_, err := d.engine.Summary(ctx, id) // nobody counts for runs that are not there
	if errors.Is(err, pawl.ErrRunNotFound) {
		return errNotYours
	}
	if err != nil {
		return err
	}
	if err := d.countSignal(tenant, id); err != nil {
		return err
	}
	err = d.engine.Signal(ctx, id, workflow.Signal{Name: name, Payload: payload})
	if errors.Is(err, pawl.ErrRunNotFound) || errors.Is(err, pawl.ErrEnded) {
		d.forgetSignals(tenant, id)
	}
	if errors.Is(err, pawl.ErrRunNotFound) {
		return errNotYours
	}
	return err
}

func (d *desk) countSignal(tenant string, id workflow.RunID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.signals[tenant][id] >= maxSignals {
		return fmt.Errorf("%w signals: %d", errTooMany, maxSignals)
	}
	if d.signals[tenant] == nil {
		d.signals[tenant] = map[workflow.RunID]int{}
	}
	d.signals[tenant][id]++
	return nil
}

func (d *desk) forgetSignals(tenant string, id workflow.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.signals[tenant], id)
}
