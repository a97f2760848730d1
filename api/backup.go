package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A Backup says where a copy of the engine directory goes, on the machine of the engine.
type Backup struct {
	Into string `json:"into"` // an absolute path
	// Interval and Keep are for Follow, as Go durations: how long a commit waits for others before
	// they are copied ("" is a second), and how far back a restore can go ("" is a week).
	Interval string `json:"interval,omitzero"`
	Keep     string `json:"keep,omitzero"`
}

// A BackupReport says what is in a copy of the engine directory.
type BackupReport struct {
	Path    string   `json:"path"`
	Runs    int      `json:"runs"`
	Files   int      `json:"files"` // files of runs
	Blobs   int      `json:"blobs"`
	Bytes   int64    `json:"bytes"`             // size of the copy
	Damaged []string `json:"damaged,omitempty"` // parts that could not be copied, and why
}

// A FollowReport says how far a copy that follows the engine directory is. It has only comparable
// fields, so that followFrames sends a report only if it differs from the last one.
type FollowReport struct {
	At      time.Time `json:"at,omitzero"`   // the copy has everything up to this moment
	Waiting int       `json:"waiting"`       // transactions that the log of the copy lacks
	Base    time.Time `json:"base,omitzero"` // when its last base was made; zero without a base yet
	Failure string    `json:"failure,omitzero"`
}

// readBackup reads where a copy goes. The path must be absolute: the working directory of the
// engine is nothing that the caller knows.
func (c *call) readBackup() (b Backup, o pawl.FollowOptions, err error) {
	text, err := c.readBody(smallBody)
	if err == nil {
		err = decodeObject(text, &b)
	}
	if err != nil {
		return b, o, err
	}
	if !filepath.IsAbs(b.Into) {
		return b, o, invalidf("into is %q: it must be an absolute path", b.Into)
	}
	for name, x := range map[string]struct {
		text string
		to   *time.Duration
	}{"interval": {b.Interval, &o.Interval}, "keep": {b.Keep, &o.Keep}} {
		if x.text == "" {
			continue
		}
		if *x.to, err = time.ParseDuration(x.text); err != nil || *x.to <= 0 {
			return b, o, invalidf("%s is %q: it must be a duration above zero, like 1h30m", name, x.text)
		}
	}
	return b, o, nil
}

// backUp makes a copy of the engine directory. A run that is damaged does not stop the copy of the
// others: it is named in Damaged, and the status is 200.
func (c *call) backUp() error {
	b, _, err := c.readBackup()
	if err != nil {
		return err
	}
	if b.Interval != "" || b.Keep != "" {
		return invalidf("interval and keep are of a copy that follows")
	}
	info, err := c.engine.Backup(c.context(), b.Into)
	if err != nil {
		return err
	}
	out := BackupReport{Path: info.Path, Runs: info.Runs, Files: info.Files, Blobs: info.Blobs, Bytes: info.Bytes}
	for _, err := range info.Damaged {
		out.Damaged = append(out.Damaged, err.Error())
	}
	return c.reply(out)
}

// followInto keeps a copy of the engine directory up to date as long as the caller listens.
func (c *call) followInto() error {
	b, o, err := c.readBackup()
	if err != nil {
		return err
	}
	if !c.acceptsType(typeStream) {
		return refusef(http.StatusNotAcceptable, codeNotAccepted, "this is a stream: ask with Accept: %s", typeStream)
	}
	o.Folder = b.Into
	return c.streamFrames(func(ctx context.Context) iter.Seq2[frame, error] { return c.followFrames(ctx, o) })
}

// followFrames follows while somebody listens, and yields how far the copy is. Reports come from the goroutine that copies,
// faster than a slow caller reads them: only the last one is kept, and a channel of one place says that there is one, so that
// copying never waits for the stream. err is read only after ended is closed.
func (c *call) followFrames(ctx context.Context, o pawl.FollowOptions) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var last atomic.Pointer[pawl.FollowReport]
		more := make(chan struct{}, 1)
		o.Report = func(r pawl.FollowReport) {
			last.Store(&r) // nobody needs the one before
			select {
			case more <- struct{}{}:
			default:
			}
		}
		var err error // of Follow, once ended is closed
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = c.engine.Follow(ctx, o)
		}()
		for told, over := (FollowReport{Waiting: -1}), false; !over; {
			select {
			case <-more:
			case <-ended: // the last report may have come meanwhile
				over = true
			}
			now := showFollow(last.Load(), told)
			if now == told {
				continue
			}
			if told = now; !yield(frame{body: now}, nil) {
				// The copy must not go on when nobody holds the stream, and its end is awaited,
				// so that the caller may start another one at once.
				stop()
				<-ended // nobody listens any more
				return
			}
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			yield(frame{}, err)
		}
	}
}

// showFollow returns how far a copy is by its last report, or told if there is none.
func showFollow(r *pawl.FollowReport, told FollowReport) FollowReport {
	if r == nil {
		return told
	}
	now := FollowReport{At: r.At, Waiting: r.Waiting, Base: r.Base}
	if r.Err != nil {
		now.Failure = r.Err.Error()
	}
	return now
}

// Backup makes a copy of the engine directory, as Engine.Backup does, on the machine of the engine.
func (c *Client) Backup(ctx context.Context, b Backup) (out BackupReport, err error) {
	err = c.ask(ctx, &question{method: http.MethodPost, path: "/v1/backup", body: b}, &out)
	return out, err
}

// Follow keeps a copy of the engine directory up to date, as Engine.Follow does, while the caller iterates. It
// yields how far the copy is. When the engine closes, Follow ends with an error, and the copy may lack the
// last commits: a host that needs them calls Engine.Follow itself.
func (c *Client) Follow(ctx context.Context, b Backup) iter.Seq2[FollowReport, error] {
	return listStream[FollowReport](ctx, c, &question{method: http.MethodPost, path: "/v1/follow", body: b})
}

// A Purge says who forgets a run that has ended, and why. The engine keeps no record of that, but writes a line to its Logger.
type Purge struct {
	By     string `json:"by,omitzero"` // who purges the run; may be left out where the host says who that is
	Reason string `json:"reason"`
}

// A PurgeReport says what was forgotten with a run or, after a dry run, what would be.
type PurgeReport struct {
	Run     workflow.RunID `json:"run"`
	Applied bool           `json:"applied"` // false: nothing was changed
	Runs    int            `json:"runs"`    // how many runs, including those below it
	Bytes   int64          `json:"bytes"`   // size of their files
}

// purgeRun forgets a run that has ended. The dry run comes first in both cases: afterwards nobody could say how much there was.
func (c *call) purgeRun() error {
	text, err := c.readBody(smallBody)
	if err != nil {
		return err
	}
	var p Purge
	if err := decodeObject(text, &p); err != nil {
		return err
	}
	if err := c.signAct(&p.By, p.Reason); err != nil {
		return err
	}
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), p.By), p.Reason), commitTime)
	defer cancel()
	seen, err := c.engine.DryRunPurge(ctx, c.runID())
	if err != nil {
		return err
	}
	if !dry {
		if err := c.engine.Purge(ctx, c.runID()); err != nil {
			return unknownIfLate(err)
		}
	}
	return c.reply(PurgeReport{Run: seen.Run, Applied: !dry, Runs: seen.Runs, Bytes: seen.Bytes})
}

// Purge forgets a run that has ended, with those below it, as Engine.Purge does.
func (c *Client) Purge(ctx context.Context, id workflow.RunID, p Purge) (PurgeReport, error) {
	return c.purgeOrDryRun(ctx, id, p, false)
}

// DryRunPurge says what Purge would forget. Nothing is changed.
func (c *Client) DryRunPurge(ctx context.Context, id workflow.RunID, p Purge) (PurgeReport, error) {
	return c.purgeOrDryRun(ctx, id, p, true)
}

func (c *Client) purgeOrDryRun(ctx context.Context, id workflow.RunID, p Purge, dry bool) (out PurgeReport, err error) {
	q := aboutRun(id, "/purge")
	if q.method, q.body, q.acts = http.MethodPost, p, !dry; dry {
		q.query.Set("dryRun", "1")
	}
	err = c.ask(ctx, q, &out)
	return out, err
}
