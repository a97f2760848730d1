package api

import (
	_ "embed" // the document
	"net/http"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/worker"
)

// An EngineInfo says which engine answers, and how many runs it has.
type EngineInfo struct {
	PID    int             `json:"pid"`    // of the engine's process
	Counts []pawl.RunCount `json:"counts"` // of runs, by workflow and status
	Stats  pawl.Stats      `json:"stats"`  // how busy it is now
}

// showEngine answers which process has the engine, and its figures. Dial asks it first, as it needs no run.
func (c *call) showEngine() error {
	counts, err := c.engine.Counts(c.context())
	if err != nil {
		return err
	}
	stats, err := c.engine.Stats(c.context())
	if err != nil {
		return err
	}
	// No counts are [] in JSON, not null.
	return c.reply(EngineInfo{os.Getpid(), append([]pawl.RunCount{}, counts...), stats})
}

// Workers say who performs the tasks of an engine now, as its pool knows it; nothing of it is stored.
type Workers struct {
	Pool *worker.Status `json:"pool,omitzero"` // absent where the executor of the engine is no pool
	More bool           `json:"more"`          // workers hold more tasks than are listed
}

// listWorkers answers how the pool of the engine stands, with the tasks that have been held
// longest. An engine whose executor is no pool answers {}, which is no error.
func (c *call) listWorkers() error {
	q := c.query()
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	s, ok, err := worker.StatusOf(c.engine)
	if err != nil {
		return err
	}
	if !ok {
		return c.reply(Workers{})
	}
	more := len(s.Active) > limit
	s.Active = s.Active[:min(limit, len(s.Active))]
	return c.reply(Workers{&s, more})
}

// A Health says that a process lives, or that its engine is ready.
type Health struct {
	Status string `json:"status"` // ok or ready
}

// showHealth answers as long as the process does, without asking the engine: a supervisor that
// restarts a process that hangs should not restart one whose disk is full.
func (c *call) showHealth() error { return c.reply(Health{"ok"}) }

// showReadiness tells everybody whether the engine commits, but not why if it does not. It asks the
// engine for its counts, which a closed one refuses, and whether its disk is full. The code alone tells the kind of the error.
func (c *call) showReadiness() error {
	_, err := c.engine.Counts(c.r.Context())
	if err == nil {
		var stats pawl.Stats
		if stats, err = c.engine.Stats(c.r.Context()); stats.DiskFull {
			err = pawl.ErrNoSpace
		}
	}
	if err != nil {
		return refusef(http.StatusServiceUnavailable, errorOf(err).Code, "the engine is not ready")
	}
	return c.reply(Health{"ready"})
}

//go:embed openapi.yaml
var openAPI []byte

// showDocument answers openapi.yaml as it is in the program, so that it fits the paths that are served.
func (c *call) showDocument() error {
	writeBody(c.w, http.StatusOK, "application/yaml", openAPI)
	return nil
}

// showTimings answers how long attempts have waited and worked. There are no values in it.
func (c *call) showTimings() error {
	q := c.query()
	f := history.TimingFilter{Workflow: q.textOf("workflow"), By: q.textOf("by"), Within: q.textOf("within")}
	timings, err := c.engine.Timings(c.context(), f)
	if err != nil {
		return err
	}
	return c.reply(timings)
}

// A diskUses is what takes the disk.
type diskUses struct {
	Uses []history.DiskUse `json:"uses"` // groups of runs, then the other parts of the directory
}

// measureDisk answers what takes the disk. There are no values in it.
func (c *call) measureDisk() error {
	uses, err := c.engine.DiskUse(c.context())
	if err != nil {
		return err
	}
	return c.reply(diskUses{uses})
}
