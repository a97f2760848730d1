package pawl_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

// A scarceStore has no descriptor for the first puts and looks.
type scarceStore struct {
	blob.Store
	puts, looks atomic.Int32
}

func (s *scarceStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	if s.puts.Add(-1) >= 0 {
		return "", 0, &blob.Error{Err: &os.PathError{Op: "openat", Path: "tmp/put", Err: syscall.EMFILE}, Detail: "put"}
	}
	return s.Store.Put(ctx, r)
}

func (s *scarceStore) Stat(ctx context.Context, hash string) (blob.Info, error) {
	if s.looks.Add(-1) >= 0 {
		return blob.Info{}, &blob.Error{Hash: hash, Err: &os.PathError{Op: "openat", Path: "4f", Err: syscall.ENFILE}}
	}
	return s.Store.Stat(ctx, hash)
}

// Too many open files pass. A task that meets them, in its own code, in the store of blobs
// or when its result is looked at, is called again, without a policy for retries.
func TestTasksWaitForDescriptors(t *testing.T) {
	scarce := fmt.Errorf("read the list: %w", &os.PathError{Op: "open", Path: "list", Err: syscall.EMFILE})
	for name, test := range map[string]struct {
		puts, looks, calls int32
		fail               error
		want               string // code of the failure
	}{
		"put":       {puts: 3, calls: 4},
		"look":      {looks: 2, calls: 3},
		"own":       {fail: scarce, calls: 2},
		"permanent": {fail: pawl.Permanent(scarce), calls: 1, want: workflow.CodeError},
		"task":      {fail: fmt.Errorf("%w: %w", pawl.TaskError{Code: "no_list", Message: "none"}, scarce), calls: 1, want: "no_list"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files, err := blob.OpenFiles(t.TempDir())
				require.NoError(t, err)
				defer files.Close()
				store := &scarceStore{Store: files}
				store.puts.Store(test.puts)
				store.looks.Store(test.looks)
				calls := int32(0)
				e := open(t, t.TempDir(), pawl.Options{Blobs: store, Executor: pawl.Handlers{"w": func(ctx context.Context, task pawl.Task) (any, error) {
					if calls++; calls == 1 && test.fail != nil {
						return nil, test.fail
					}
					return task.Put(ctx, strings.NewReader("x"), "")
				}}})
				began := time.Now()
				out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, "name: one\nstart: w\nnodes: [{id: w, task: w}]\n")}, nil)
				require.NoError(t, err)
				require.Equal(t, test.calls, calls)
				if test.want != "" {
					require.Equal(t, test.want, out.Failure.Code)
					return
				}
				require.NoError(t, out.Err())
				require.Equal(t, time.Duration(calls-1)*5*time.Second, time.Since(began).Truncate(time.Second))
			})
		})
	}
}
