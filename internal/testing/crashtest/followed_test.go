package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/rescue"
)

// followedDir is where the copy is that follows the engine directory of a trial.
func followedDir(dir string) string { return filepath.Join(dir, "followed") }

// A following is a follower at work.
type following struct {
	reports chan pawl.FollowReport // gets those that come while somebody waits for one
	over    chan struct{}          // closed when the follower has ended
	err     error                  // of its end
}

// follow lets a copy follow the engine until that is closed, if the work says so. It returns when the copy has a base.
func (l *life) follow(ctx context.Context) *following {
	f := &following{reports: make(chan pawl.FollowReport), over: make(chan struct{})}
	if !l.follows {
		close(f.over)
		return f
	}
	based := make(chan struct{})
	var once sync.Once
	report := func(r pawl.FollowReport) {
		if !r.Base.IsZero() {
			once.Do(func() { close(based) })
		}
		select {
		case f.reports <- r:
		default:
		}
	}
	go func() {
		defer close(f.over)
		f.err = l.engine.Follow(ctx, pawl.FollowOptions{Folder: followedDir(l.dir), Interval: time.Millisecond, Report: report})
		once.Do(func() { close(based) })
	}()
	<-based
	return f
}

// awaitCopy waits until the copy has what was committed before: on a busy machine that may take longer than Close waits for it. The
// first report may be of a time before.
func (f *following) awaitCopy(ctx context.Context) {
	for first := true; ; first = false {
		select {
		case r := <-f.reports:
			if !first && r.Waiting == 0 && r.Err == nil {
				return
			}
		case <-f.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wait returns how the follower has ended.
func (f *following) wait() error {
	<-f.over
	return f.err
}

// checkFollowed restores the copy that follows the directory of a trial, and returns what is wrong with it: what is in it
// must be in order, and of every run what that had committed at some time; all of it, if the last life has closed its
// engine.
func checkFollowed(dir string, w work, lines []witness.Entry, now witness.Snapshot) error {
	if !w.follows {
		return nil
	}
	into := filepath.Join(dir, "restored")
	defer func() { _ = os.RemoveAll(into) }() // the whole workspace goes in the end
	info, err := pawl.Restore(context.Background(), into, pawl.RestoreOptions{Folder: followedDir(dir), Codec: w.codec()})
	if errors.Is(err, pawl.ErrNoBase) && !wasClosed(lines) {
		return nil // the first life was killed before there was one
	}
	if err != nil {
		return err
	}
	if len(info.Damaged) > 0 {
		return fmt.Errorf("what follows is damaged: %v", info.Damaged)
	}
	r, err := rescue.Verify(context.Background(), into, rescue.Options{Codec: w.codec()})
	if err != nil {
		return err
	}
	if r.Damage > 0 {
		return fmt.Errorf("what is restored is damaged: %v", r.Findings)
	}
	snap, err := witness.TakeFrom(into, into+".copy", w.codec(), false)
	if err != nil {
		return err
	}
	for id, f := range snap {
		if of := now[id]; of == nil || len(of.Records) < len(f.Records) {
			return fmt.Errorf("%s has %d records, more than the original", id, len(f.Records))
		}
		for i, r := range f.Records {
			if !reflect.DeepEqual(r, now[id].Records[i]) {
				return fmt.Errorf("%s: record %d is %v, of the original %v", id, r.Seq, r, now[id].Records[i])
			}
		}
	}
	for id, of := range now {
		if f := snap[id]; wasClosed(lines) && (f == nil || len(f.Records) < len(of.Records)) {
			return fmt.Errorf("%s has more records than what is restored, although the engine was closed", id)
		}
	}
	return nil
}

// wasClosed reports whether the last life has closed its engine.
func wasClosed(lines []witness.Entry) bool {
	return len(lines) > 0 && lines[len(lines)-1].What == witness.Closed
}
