package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// A broker is a Feed that keeps its messages in a file of the trial. It keeps some messages and loses
// the answer.
type broker struct {
	mu   sync.Mutex
	file *os.File
	n    int
}

// lostAnswer is how many messages there are from one whose answer is lost to the next.
const lostAnswer = 13

func feedFile(dir string) string { return filepath.Join(dir, "published") }

// feed returns the options of a feed, if the work says so.
func (w *work) feed(dir string) (pawl.FeedOptions, error) {
	if !w.feeds {
		return pawl.FeedOptions{}, nil
	}
	f, err := witness.OpenLines(feedFile(dir))
	return pawl.FeedOptions{To: &broker{file: f}}, err
}

// Publish implements pawl.Feed.
func (b *broker) Publish(_ context.Context, m pawl.FeedMessage) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err = b.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if b.n++; b.n%lostAnswer == 0 {
		return errors.New("the answer is lost")
	}
	return nil
}

// awaitFeed waits until everything is published.
func awaitFeed(ctx context.Context, engine *pawl.Engine) error {
	for {
		s, err := engine.Stats(ctx)
		if err != nil || s.Feed == nil || s.Feed.Waiting == 0 {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// checkFed returns what is wrong with what was published: of each run the events, as they are in the
// directory, in their order; all of them, if the last life has closed its engine. A message that comes again is
// what it was.
func checkFed(dir string, w work, lines []witness.Entry, now witness.Snapshot) error {
	if !w.feeds {
		return nil
	}
	data, err := witness.ReadLines(feedFile(dir))
	if err != nil {
		return err
	}
	seen := map[string][]byte{}
	came := map[workflow.RunID]int{}
	for line := range bytes.Lines(data) {
		var m pawl.FeedMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("published: %w", err)
		}
		if was := seen[m.ID]; was != nil {
			if !bytes.Equal(was, line) {
				return fmt.Errorf("published as %s, and then as %s", was, line)
			}
			continue
		}
		seen[m.ID] = bytes.Clone(line)
		want := toldBy(now[m.Run])
		if n := came[m.Run]; n >= len(want) || !isSameEvent(&m.Event, &want[n]) {
			return fmt.Errorf("%s is not what comes next of %d events, of which %d were published", line, len(want), n)
		}
		came[m.Run]++
	}
	for id, f := range now {
		if want := toldBy(f); wasClosed(lines) && came[id] < len(want) {
			return fmt.Errorf("%s has %d events, of which %d were published, although the engine was closed", id, len(want), came[id])
		}
	}
	return nil
}

// toldBy returns the events that a run tells: of a fork, its own.
func toldBy(f *witness.Found) []history.Event {
	if f == nil {
		return nil
	}
	first := 0
	for first < len(f.Events) && f.Events[first].Record <= f.Head.ForkedFrom.Record {
		first++
	}
	return f.Events[first:]
}

// isSameEvent compares an event that was read from JSON with what it was.
func isSameEvent(read, was *history.Event) bool {
	text, err := json.Marshal(was)
	var same history.Event
	return err == nil && json.Unmarshal(text, &same) == nil && reflect.DeepEqual(&same, read)
}
