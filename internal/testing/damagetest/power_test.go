package damagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/power"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A line is a note of the ledger and when it was made.
type line struct {
	note
	number int // of the operation
}

// A tape is what three processes did to a disk, one after the other.
type tape struct {
	path  string
	ops   []power.Op
	notes []line
	lives []int // where each begins
}

// record runs the three lives.
func record(t *testing.T, env ...string) *tape {
	p := &tape{path: harness.Workspace(t)}
	for n := 1; n <= 3; n++ {
		p.lives = append(p.lives, len(p.ops))
		p.ops = traced(t, p, append(env, childDir+"="+p.path, fmt.Sprintf("%s=%d", childLife, n))...)
	}
	for i, o := range p.ops {
		if o.Kind == power.Acknowledged {
			var x note
			require.NoError(t, json.Unmarshal(o.Data, &x))
			p.notes = append(p.notes, line{x, i})
		}
	}
	p.check(t)
	require.Positive(t, p.freedRegions())
	return p
}

// traced runs a child under a tracer until it ends, and returns the operations of the tape with its own.
func traced(t *testing.T, p *tape, env ...string) []power.Op {
	tr := power.NewTracer(p.path, ledgerFile, p.ops)
	cmd := exec.Command(os.Args[0])
	cmd.Env = harness.Environment(env...)
	cmd.Stderr = os.Stderr
	err := tr.Run(cmd)
	if errors.Is(err, power.ErrNoTrace) {
		t.Skipf("LOSSES OF POWER ARE NOT TESTED: %v", err)
	}
	require.NoError(t, err)
	return tr.Ops()
}

// freedRegions returns how often a region of the redo log has begun anew.
func (p *tape) freedRegions() (n int) {
	for _, o := range p.ops {
		if o.Kind == power.Wrote && filepath.Base(o.Path) == redoFile && (o.At == redoRegions || o.At == redoRegions+redoSector) {
			n++
		}
	}
	return n
}

// check checks that the tape, played to its end, gives what is there.
func (p *tape) check(t *testing.T) {
	into := filepath.Join(harness.Workspace(t), "all")
	keep := power.Loss{Names: "all", Bytes: "all"}
	require.NoError(t, keep.Lose(p.play(len(p.ops)), into))
	want := harness.Contents(t, filepath.Join(p.path, "new"))
	delete(want, "engine/pawl.db-shm")
	require.Equal(t, want, harness.Contents(t, filepath.Join(into, "new")))
}

// play plays the first operations.
func (p *tape) play(k int) *power.Disk {
	d := power.NewDisk(p.path)
	for i, o := range p.ops[:k] {
		if o.Kind != power.Acknowledged && filepath.Base(o.Path) != ledgerFile {
			d.Play(o, i)
		}
	}
	return d
}

// A promise is what was acknowledged of a run when the power went.
type promise struct {
	lives   [][]string // the records of the run, and of those that had its id after it was purged
	reached int        // the last of these that is acknowledged, -1 for none
	acked   int        // how many of its records are
	gone    bool       // and that it was purged
	going   bool       // it was being purged
}

func (p *tape) promises(k int) map[workflow.RunID]*promise {
	out := map[workflow.RunID]*promise{}
	for _, n := range p.notes {
		if n.Run == "" {
			continue
		}
		x := out[n.Run]
		if x == nil {
			x = &promise{reached: -1}
			out[n.Run] = x
		}
		past := n.number < k
		switch {
		case n.Gone:
			x.gone, x.going = x.gone || past, x.going || !past
			continue
		case n.Seq == 1:
			x.lives = append(x.lives, nil)
		}
		last := len(x.lives) - 1
		x.lives[last] = append(x.lives[last], n.Text)
		if past {
			x.reached, x.acked, x.gone = last, len(x.lives[last]), false
		}
	}
	return out
}

// TestLossOfPower plays what three processes did to their files on a disk that
// loses at any moment what was not synced: names, whole writes, sectors of them.
// The engine must open, hold all that was acknowledged, and of every run the
// first of its records.
func TestLossOfPower(t *testing.T) {
	p := record(t)
	var y tally
	lose(t, &y, p, seedOfDay(t), harness.Figure(24, 1000, 50000), true)
}

// TestLossOfPowerWithoutSync is the same with commits that are not synced:
// records may be lost, the last ones, and nothing else.
func TestLossOfPowerWithoutSync(t *testing.T) {
	harness.InTurn(t, 4)
	p := record(t, childLax+"=1")
	var y tally
	lose(t, &y, p, *seed, harness.Figure(20, 500, 10000), false)
}

func lose(t *testing.T, y *tally, p *tape, seed uint64, n int, durable bool) {
	t.Logf("%d operations, %d acknowledgements, lives at %v", len(p.ops), len(p.notes), p.lives)
	trialsFrom(t, seed, n, func(i int, rng *rand.Rand, dir string) {
		k := 1 + rng.IntN(len(p.ops))
		l := power.DrawLoss(k, rng)
		if err := l.Lose(p.play(k), dir); err != nil {
			t.Error(err)
			return
		}
		y.count("names: " + l.Names)
		y.count("bytes: " + l.Bytes)
		err := p.judge(y, engineDir(dir), k, durable, i%4 == 0)
		if err != nil {
			y.violate("seed %d, trial %d: power is lost after operation %d (%s), names %s, bytes %s: %v",
				seed, i, k, p.describe(k-1), l.Names, l.Bytes, err)
		}
	})
	must := []string{"all is there", "less is there"}
	for _, how := range power.KeptNames() {
		must = append(must, "names: "+how)
	}
	for _, how := range power.KeptBytes() {
		must = append(must, "bytes: "+how)
	}
	y.report(t, n, must...)
}

func (p *tape) describe(i int) string {
	o := p.ops[i]
	return fmt.Sprintf("%s %s %s %d+%d", o.Kind, filepath.Base(o.Path), filepath.Base(o.To), o.At, len(o.Data))
}

// judge opens what is left and compares it with what was acknowledged.
func (p *tape) judge(y *tally, dir string, k int, durable, whole bool) error {
	deep := journals
	if whole {
		deep = everything
		if err := sound(dir); err != nil {
			return err
		}
	}
	h, err := look(dir, deep)
	if err != nil {
		return err
	}
	return p.compare(y, h, dir, k, durable)
}

// sound checks that Verify finds no damage.
func sound(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, indexFile)); err != nil {
		return nil // there is no engine directory yet
	}
	r, err := rescue.Verify(context.Background(), dir, rescue.Options{})
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for _, f := range r.Findings {
		if f.Damage {
			return errors.New(f.String())
		}
	}
	return nil
}

func (p *tape) compare(y *tally, h truth, dir string, k int, durable bool) error {
	whole, promises := true, p.promises(k)
	for id, x := range promises {
		w := h.runs[id]
		if w != nil && (w.err != nil || w.loads != nil) {
			return fmt.Errorf("run %q: %w", string(id), errors.Join(w.err, w.loads))
		}
		if err := x.keeps(w, durable); err != nil {
			return fmt.Errorf("run %q: %w", string(id), err)
		}
		whole = whole && (w == nil) == (x.reached < 0 || x.gone) && (w == nil || len(w.records) == x.acked)
	}
	for id := range h.runs {
		if promises[id] == nil {
			return fmt.Errorf("run %q was never there", string(id))
		}
	}
	if whole {
		y.count("all is there")
	} else {
		y.count("less is there")
	}
	if !durable || k%4 != 0 {
		return nil
	}
	return p.keepsOthers(dir, k)
}

// keeps checks what is left of a run.
func (x *promise) keeps(w *told, durable bool) error {
	if w == nil {
		if durable && x.reached >= 0 && !x.gone && !x.going {
			return fmt.Errorf("it is gone; %d records were acknowledged", x.acked)
		}
		return nil
	}
	for life, records := range x.lives {
		if len(w.records) > len(records) || !slices.Equal(w.records, records[:len(w.records)]) {
			continue
		}
		switch {
		case !durable:
			return nil
		case life < x.reached || life == x.reached && x.gone:
			return errors.New("it was purged")
		case life == x.reached && len(w.records) < x.acked:
			return fmt.Errorf("it has %d records; %d were acknowledged", len(w.records), x.acked)
		}
		return nil
	}
	return fmt.Errorf("its %d records are not the first of those that were committed", len(w.records))
}

// keepsOthers checks outcomes and definitions.
func (p *tape) keepsOthers(dir string, k int) error {
	d, err := store.Open(dir, store.Options{})
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	for _, n := range p.notes {
		if n.number >= k {
			break
		}
		if n.Kept != "" {
			if _, e := d.Outcome(context.Background(), n.Kept); e != nil {
				err = fmt.Errorf("outcome %q: %w", n.Kept, e)
			}
		}
		if n.Name != "" {
			if _, e := d.Published(context.Background(), n.Name, 1); e != nil {
				err = fmt.Errorf("definition %q: %w", n.Name, e)
			}
		}
	}
	return errors.Join(err, d.Close())
}
