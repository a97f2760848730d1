package rescue

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Report is what Verify or Repair has found.
type Report struct {
	// The counts follow from Findings by addFinding alone; Runs, Records, Files and Blobs are
	// counted by whoever looks at them.
	Path     string    `json:"path"`
	Findings []Finding `json:"-"`
	Damage   int       `json:"damage"` // findings that are
	Notes    int       `json:"notes"`  // the other findings
	Runs     int       `json:"runs"`   // looked at; of Repair, restored
	Records  int64     `json:"records"`
	Files    int       `json:"files"` // of runs
	Blobs    int       `json:"blobs"`
}

// A Finding is one thing that is not as it should be. It is printed in one line.
//
// The texts What and Do are sentences for an operator who does not know the engine from inside:
// the first says what was seen, the second what to do about it, and they are printed with a
// semicolon between them.
type Finding struct {
	Damage bool           `json:"damage"`        // something is wrong, or lost; false is a note
	Run    workflow.RunID `json:"run,omitempty"` // "" if it concerns no single run
	File   string         `json:"file"`          // below the directory
	What   string         `json:"what"`
	Do     string         `json:"do"` // about it

	keyID string // of what is sealed and could not be opened
}

// String returns the finding as one line.
func (f Finding) String() string {
	text := "note: "
	if f.Damage {
		text = "damage: "
	}
	if f.File != "" {
		text += f.File + ": "
	}
	if f.Run != "" {
		text += fmt.Sprintf("run %q: ", string(f.Run))
	}
	text += f.What
	if f.Do != "" {
		text += "; " + f.Do
	}
	// A cause may quote a text with line breaks; a finding stays on one line, so that a report
	// can be read by line.
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
}

// String returns the counts as one line.
func (r *Report) String() string {
	return fmt.Sprintf("%s, %s, %s and %s: %d damaged, %s", countText(int64(r.Runs), "run"), countText(r.Records, "record"),
		countText(int64(r.Files), "file"), countText(int64(r.Blobs), "blob"), r.Damage, countText(int64(r.Notes), "note"))
}

// countText writes a number with its noun, in the singular for one.
func countText(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// addFinding is where every finding comes in, so that the counts agree with the list.
func (r *Report) addFinding(f Finding) {
	if f.Damage {
		r.Damage++
	} else {
		r.Notes++
	}
	r.Findings = append(r.Findings, f)
}

// The advice for findings.
const (
	doRepair  = "take the directory from a backup, or restore what is left with pawl repair"
	doRebuild = "pawl repair builds it anew"
	doBlob    = "put the same bytes again, or take the file from a backup"
	doLeave   = "it does no harm"
	doApply   = "apply the schedule of this key again: only what it has come to is lost"
)

// addDamage adds an error about something that is damaged or cannot be read.
//
// A *store.CorruptError knows its run and its file better than the caller, and says them in
// place of the caller's. A value that could not be opened for want of a key is put aside:
// whether that is damage can only be said at the end, when it is known what the key has opened
// elsewhere.
func (in *inspection) addDamage(id workflow.RunID, file string, err error, do string) {
	f := Finding{Damage: true, Run: id, File: file, Do: do}
	if s := (*store.SealedError)(nil); errors.As(err, &s) {
		f.What, f.keyID = err.Error(), s.KeyID
		in.sealed = append(in.sealed, f)
		return
	}
	var c *store.CorruptError
	if errors.As(err, &c) {
		f.What = c.What
		if c.Err != nil {
			f.What += ": " + c.Err.Error()
		}
		if f.Run == "" {
			f.Run = c.Run
		}
		// The file of the error is absolute; a report says where it is below the directory.
		if rel, err := filepath.Rel(in.path, c.File); err == nil {
			f.File = filepath.ToSlash(rel)
		}
	} else {
		f.What = err.Error()
	}
	in.report.addFinding(f)
}

// addSealed adds what could not be opened: damage, if its key has opened anything else, or
// else one note for all of a key.
//
// A key that opens other values and not this one proves that this one has changed. A key that
// has opened nothing is missing or wrong, and then the values under it may all be sound: that
// is said once for the key, not for each value.
func (in *inspection) addSealed() {
	noted := map[string]bool{}
	for _, f := range in.sealed {
		switch {
		case in.Sealed.Opened(f.keyID):
			in.report.addFinding(f)
		case !noted[f.keyID]:
			noted[f.keyID] = true
			in.addNote("", "give the key file to check them", "values are sealed with the key %q, and only their checksums were checked: %s", f.keyID, f.What)
		}
	}
}

// addWrong adds what does not agree with the rest.
//
// It is for contradictions, which no error of the store tells of: a row and a journal that were
// read without fault and say different things.
func (in *inspection) addWrong(id workflow.RunID, file, do, format string, args ...any) {
	in.report.addFinding(Finding{Damage: true, Run: id, File: file, What: fmt.Sprintf(format, args...), Do: do})
}

// addNote adds a note: a finding that is not damage.
func (in *inspection) addNote(file, do, format string, args ...any) {
	in.report.addFinding(Finding{File: file, What: fmt.Sprintf(format, args...), Do: do})
}
