package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/workflow"
)

// letters is the definition: three tasks in a row. Their results are not of
// interest here.
func letters() *workflow.Definition {
	b := build.New("letters")
	b.Task("write").To("post")
	b.Task("post").To("file")
	b.Task("file")
	return b.MustDefinition()
}

// An office performs the tasks. Its mailbox is the world outside: a folder
// that knows nothing about runs, and from which nothing can be taken back.
type office struct {
	mailbox string

	mu   sync.Mutex
	did  map[string]int // how often each task was performed by this process
	told io.Writer
}

func (o *office) handlers() pawl.Handlers {
	return pawl.Handlers{"write": pawl.Typed(o.easy), "post": pawl.Typed(o.post), "file": pawl.Typed(o.easy)}
}

func (o *office) easy(ctx context.Context, _ struct{}) (any, error) {
	o.count(pawl.TaskFrom(ctx).Type)
	return nil, nil
}

// post puts a letter into the mailbox, which must happen once, and then waits
// for a confirmation, which takes a minute. If the process dies in that minute,
// the engine cannot know what was done: it calls post again. So the letter goes
// out under the EffectKey, which is the same in every attempt and every process;
// a receiver of a second letter with the same key throws it away.
func (o *office) post(ctx context.Context, _ struct{}) (any, error) {
	letter := filepath.Join(o.mailbox, url.PathEscape(pawl.TaskFrom(ctx).EffectKey))
	f, err := os.OpenFile(letter, os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		o.count("post, a second time")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	o.count("post")
	select {
	case <-time.After(time.Minute):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *office) count(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.did[what]++
	fmt.Fprintln(o.told, what)
}
