package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A slot is what samples are taken of, once a round.
type slot struct {
	program   string
	powerLoss bool
	other     bool // by the program of the other checkout
}

// A runner takes the samples: in rounds, every slot once, so that a change on the machine meanwhile concerns all of them.
type runner struct {
	settings
	sizes    sizes
	begin    time.Time
	self     string   // the binaries
	otherOne string   // "" without -against
	folder   string   // for engine directories
	kept     bool     // the folder is the user's
	used     []string // directories of samples, which removeFolder removes
	send     func(ctx context.Context, binary string, o order) (answer, error)
	answers  map[slot][]answer
	retakes  int // how often a disturbed sample is taken again
}

const (
	// maxForeign is how many processors others may keep busy during a sample that is
	// not disturbed.
	maxForeign = 0.25
	// quickTime is after how long -quick begins nothing more.
	quickTime = 70 * time.Second
)

func newRunner(ctx context.Context, s settings, begin time.Time) (*runner, error) {
	r := &runner{settings: s, sizes: s.sizes(), begin: begin, kept: s.dir != "", send: sendOrder, answers: map[slot][]answer{}, retakes: 3}
	var err error
	if r.self, err = os.Executable(); err != nil {
		return nil, err
	}
	for _, dir := range []string{s.dir, s.cpuProfile, s.memProfile} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if s.cpuProfile != "" || s.memProfile != "" {
		r.retakes = 0 // whoever wants profiles reads no figures
	}
	r.folder = s.dir
	if !r.kept {
		if r.folder, err = os.MkdirTemp("", "pawl-bench-"); err != nil {
			return nil, err
		}
	}
	if s.against != "" {
		r.otherOne, err = buildOther(ctx, s.against, s.with, r.folder)
	}
	if err != nil {
		r.removeFolder()
		return nil, err
	}
	return r, nil
}

// removeFolder removes what the samples have left. It waits for the last one: ext4 without a journal passes over the
// inodes of files that were removed in the last seconds, one by one, whenever a file is made, and that would be a third of
// what W3 takes.
func (r *runner) removeFolder() {
	for _, dir := range r.used {
		_ = os.RemoveAll(dir)
	}
	if !r.kept {
		_ = os.RemoveAll(r.folder)
	}
}

// wants reports whether a workload is to be measured.
func (r *runner) wants(workload string) bool {
	names := r.workloads()
	if len(names) == 0 {
		return workload != endedWorkload
	}
	return slices.Contains(names, workload)
}

// durabilitiesOf returns with which durabilities a program runs: true is PowerLoss.
func durabilitiesOf(program string) []bool {
	if inBothDurabilities[program] {
		return []bool{true, false}
	}
	return []bool{true}
}

// slots returns what a round consists of.
func (r *runner) slots() []slot {
	programs := []string{bareProgram}
	for _, m := range metrics {
		if r.wants(m.workload) && m.program != buildProgram && !slices.Contains(programs, m.program) {
			programs = append(programs, m.program)
		}
	}
	var slots []slot
	for _, p := range programs {
		for _, powerLoss := range durabilitiesOf(p) {
			slots = append(slots, slot{program: p, powerLoss: powerLoss})
			if r.otherOne != "" && p != bareProgram {
				slots = append(slots, slot{program: p, powerLoss: powerLoss, other: true})
			}
		}
	}
	return slots
}

// takeSamples takes all rounds, and then the disturbed samples again.
func (r *runner) takeSamples(ctx context.Context) error {
	slots := r.slots()
	if err := r.buildDirectories(ctx, slots); err != nil {
		return err
	}
	for round := range r.rounds {
		begin := time.Now()
		for _, s := range slots {
			a, err := r.takeOne(ctx, s)
			if err != nil {
				return err
			}
			r.answers[s] = append(r.answers[s], a)
		}
		slices.Reverse(slots) // so that neither of two programs always comes first
		fmt.Fprintf(os.Stderr, "bench: round %d of %d took %.0f s\n", round+1, r.rounds, time.Since(begin).Seconds())
		if round+1 < r.rounds && !r.hasTimeFor(time.Since(begin)) {
			fmt.Fprintln(os.Stderr, "bench: no time for a further round: the figures are medians of fewer")
			break
		}
	}
	return r.takeAgain(ctx, slots)
}

// hasTimeFor reports whether something that takes so long may begin.
func (r *runner) hasTimeFor(d time.Duration) bool {
	return !r.quick || time.Since(r.begin)+d < quickTime
}

// takeAgain replaces samples that others disturbed, keeping what was the least
// disturbed.
func (r *runner) takeAgain(ctx context.Context, slots []slot) error {
	for range r.retakes {
		for _, s := range slots {
			for i, a := range r.answers[s] {
				if a.Foreign <= maxForeign || !r.hasTimeFor(5*time.Second) {
					continue
				}
				again, err := r.takeOne(ctx, s)
				if err != nil {
					return err
				}
				if again.Foreign < a.Foreign {
					r.answers[s][i] = again
				}
			}
		}
	}
	return nil
}

func (r *runner) takeOne(ctx context.Context, s slot) (answer, error) {
	o := r.orderFor(s)
	if s.program == endedProgram {
		return r.send(ctx, r.binaryFor(s), o)
	}
	dir, err := os.MkdirTemp(r.folder, s.program+"-")
	if err != nil {
		return answer{}, err
	}
	r.used, o.Dir = append(r.used, dir), dir
	return r.send(ctx, r.binaryFor(s), o)
}

func (r *runner) orderFor(s slot) order {
	o := order{Program: s.program, PowerLoss: s.powerLoss, Sizes: r.sizes, Dir: r.endedDir(s.other)}
	if s.program == bareProgram {
		return o
	}
	name := s.program + "-" + durabilityName(s.powerLoss)
	if s.other {
		name += "-other"
	}
	name += fmt.Sprint("-", len(r.answers[s])+1)
	if r.cpuProfile != "" {
		o.CPUProfile = filepath.Join(r.cpuProfile, name+".cpu")
	}
	if r.memProfile != "" {
		o.MemProfile = filepath.Join(r.memProfile, name+".mem")
	}
	return o
}

func (r *runner) binaryFor(s slot) string {
	if s.other {
		return r.otherOne
	}
	return r.self
}

// endedDir is the directory of ended runs; each program has its own.
func (r *runner) endedDir(other bool) string {
	name := fmt.Sprintf("ended-%d", r.sizes.Ended)
	if other {
		name += "-other"
	}
	return filepath.Join(r.folder, name)
}

// buildDirectories builds the directories of ended runs, if they are not there from
// an earlier time, and puts the answers of the builders in their slots.
func (r *runner) buildDirectories(ctx context.Context, slots []slot) error {
	for _, s := range slots {
		if s.program != endedProgram {
			continue
		}
		s.program = buildProgram
		a, err := r.buildDirectory(ctx, s)
		if err != nil {
			return err
		}
		r.answers[s] = []answer{a}
	}
	return nil
}

// buildDirectory builds one. Its answer, kept beside it, says that it is whole.
func (r *runner) buildDirectory(ctx context.Context, s slot) (answer, error) {
	var a answer
	dir := r.endedDir(s.other)
	text, err := os.ReadFile(dir + ".json")
	if err == nil {
		err = json.Unmarshal(text, &a)
		return a, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	fmt.Fprintf(os.Stderr, "bench: building %s\n", dir)
	o := r.orderFor(s)
	if o.Dir, err = os.MkdirTemp(r.folder, "building-"); err != nil {
		return a, err
	}
	if a, err = r.send(ctx, r.binaryFor(s), o); err != nil {
		return a, errors.Join(err, os.RemoveAll(o.Dir))
	}
	if text, err = json.Marshal(a); err != nil {
		return a, err
	}
	return a, errors.Join(os.Rename(o.Dir, dir), os.WriteFile(dir+".json", text, 0o644))
}

// valuesOf returns one value of all samples of a slot.
func (r *runner) valuesOf(s slot, key string) []float64 {
	var values []float64
	for _, a := range r.answers[s] {
		if v, ok := a.Values[key]; ok {
			values = append(values, v)
		}
	}
	return values
}

// disturbedOf returns how many samples of a slot others have disturbed.
func (r *runner) disturbedOf(s slot) int {
	n := 0
	for _, a := range r.answers[s] {
		if a.Foreign > maxForeign {
			n++
		}
	}
	return n
}
