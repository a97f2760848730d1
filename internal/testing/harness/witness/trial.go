package witness

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/store"
)

// A Trial is one engine directory and what happens to it, in lives: times from Open
// to Close, or to the death of a process.
type Trial struct {
	Dir   string            // the engine directory is below, and so is the ledger
	Want  map[string]string // outcomes without any harm, by run; nil: they are not known
	Codec store.Codec       // that values are sealed with; nil: they are not
	Lives int
	Was   Snapshot // what was found after the last life
	Wrong []string
}

// NewTrial returns a trial in a folder, which is made.
func NewTrial(dir string, want map[string]string) (*Trial, error) {
	return &Trial{Dir: dir, Want: want, Was: Snapshot{}}, os.MkdirAll(dir, 0o700)
}

// Engine returns the engine directory.
func (t *Trial) Engine() string { return filepath.Join(t.Dir, "engine") }

// Bad notes that something is wrong.
func (t *Trial) Bad(format string, args ...any) {
	t.Wrong = append(t.Wrong, fmt.Sprintf(format, args...))
}

// Look checks what is found after a life against what hosts were told, which it
// returns, and against what was found before. With whole, all runs have ended and
// the engine was closed. It returns false if nothing could be read.
func (t *Trial) Look(whole bool) ([]Entry, bool) {
	lines, err := ReadLedger(filepath.Join(t.Dir, "ledger"))
	if err != nil {
		t.Bad("%v", err)
		return nil, false
	}
	now, err := TakeFrom(t.Engine(), filepath.Join(t.Dir, "copy"), t.Codec, whole)
	if err != nil {
		t.Bad("after life %d: %v", t.Lives, err)
		return nil, false
	}
	for _, text := range Check(t.Was, now, lines, t.Lives) {
		t.Bad("after life %d: %s", t.Lives, text)
	}
	t.Was = now
	return lines, true
}

// CheckEnds checks that runs have ended as they do without any harm.
func (t *Trial) CheckEnds(jobs []Job) {
	found := t.Was.Outcomes()
	for _, j := range jobs {
		out, ok := found[string(j.ID)]
		if !ok {
			out = "nothing"
		}
		if want := t.Want[string(j.ID)]; t.Want != nil && out != want {
			t.Bad("%s ended as %s, unharmed as %s", j.ID, out, want)
		}
	}
}
