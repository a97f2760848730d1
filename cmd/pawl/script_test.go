package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/harness"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pawl": runAtNow})
}

// runAtNow is main by the clock that the variable NOW sets, which dies where the variable of harness.Killer says.
func runAtNow() {
	con := newConsole(os.Stdin, os.Stdout, os.Stderr)
	if now, err := time.Parse(time.RFC3339, os.Getenv("NOW")); err == nil {
		con.Now = func() time.Time { return now }
	}
	hit, err := harness.Killer()
	if err != nil {
		panic(err)
	}
	con.hook = &testhook.Hook{}
	con.hook.OnHit(hit)
	con.runProcess()
}

var rewrite = flag.Bool("rewrite", false, "write what the commands print into the scripts")

// TestScripts plays the scripts in testdata. Besides those of testscript they
// have the commands below, and status N ARGS..., which runs pawl and expects that
// exit status. With the race detector they are those with an engine that is live.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	if harness.Raced {
		files = slices.DeleteFunc(files, func(name string) bool {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			return !bytes.Contains(text, []byte("\nlive "))
		})
	}
	require.NotEmpty(t, files)
	testscript.Run(t, testscript.Params{
		Files:         files,
		UpdateScripts: *rewrite,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"directory": makeDirectory, "damage": damageDirectory, "open": openForGood, "live": openWithSocket, "parked": makeParked, "finishwith": finishWith, "finish": finishRuns, "hash": hashFiles, "status": expectStatus, "unlike": changeJournal, "orders": makeOrders, "twins": makeTwins, "sealed": makeSealed, "cut": cutFile,
		},
	})
}

const oneStep = "name: one\nstart: a\nnodes: [{id: a, task: work, input: {file: input.file}}]\n"

func openEngine(ts *testscript.TestScript, dir string, e pawl.Executor) *pawl.Engine {
	engine, err := pawl.Open(context.Background(), ts.MkAbs(dir), pawl.Options{Executor: e})
	ts.Check(err)
	return engine
}

// makeDirectory makes an engine directory with the runs a and b, which have ended,
// and c, which waits for its task. b refers to a blob.
func makeDirectory(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	work := func(_ context.Context, t pawl.Task) (any, error) {
		if t.Run == "c" {
			return nil, pawl.ErrPending
		}
		return "done", nil
	}
	engine := openEngine(ts, args[0], pawl.Handlers{"work": work})
	ref, err := engine.PutBlob(ctx, strings.NewReader("large"), "")
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(oneStep))
	ts.Check(err)
	for id, file := range map[workflow.RunID]any{"a": nil, "b": ref, "c": nil} {
		ts.Check(engine.Start(ctx, workflow.Run{ID: id, Definition: def}, map[string]any{"file": file}))
		if id != "c" {
			_, err = engine.Wait(ctx, id)
			ts.Check(err)
		}
	}
	ts.Check(engine.Close(ctx))
}

// damageDirectory flips a bit at the end of the file of run b and removes the blob.
func damageDirectory(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	d, err := store.Open(dir, store.Options{})
	ts.Check(err)
	h, err := d.Head("b")
	ts.Check(err)
	ts.Check(d.Close())
	path := filepath.Join(dir, h.File)
	data, err := os.ReadFile(path)
	ts.Check(err)
	data[len(data)-300] ^= 4
	ts.Check(os.WriteFile(path, data, 0o600))
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "*"))
	ts.Check(err)
	ts.Check(os.Remove(blobs[0]))
}

// openForGood opens a directory until the end of the script.
func openForGood(ts *testscript.TestScript, _ bool, args []string) {
	engine := openEngine(ts, args[0], nil)
	ts.Defer(func() { ts.Check(engine.Close(context.Background())) })
}

// openWithSocket opens a directory until the end of the script, and serves the command.
func openWithSocket(ts *testscript.TestScript, _ bool, args []string) {
	engine, err := pawl.Open(context.Background(), ts.MkAbs(args[0]), pawl.Options{Socket: api.Local})
	ts.Check(err)
	ts.Defer(func() { ts.Check(engine.Close(context.Background())) })
}

// finishRuns opens a directory, lets what is not suspended come to its end, and
// writes how each run stands.
func finishRuns(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	engine := openEngine(ts, args[0], pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return "done", nil }})
	for r, err := range engine.Runs(ctx, pawl.RunFilter{}) {
		ts.Check(err)
		if r.Status != workflow.RunSuspended {
			r.Outcome, err = engine.Wait(ctx, r.Run)
			ts.Check(err)
		}
		fmt.Fprintln(ts.Stdout(), r.Run, r.Status)
	}
	ts.Check(engine.Close(ctx))
}

// cutFile removes the last byte of a file but its line break.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, append(data[:len(data)-2], '\n'), 0o600))
}

// hashFiles writes the hashes of all files of a directory into a file.
func hashFiles(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	var lines []string
	ts.Check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		lines = append(lines, fmt.Sprintf("%s %x", strings.TrimPrefix(path, dir), sha256.Sum256(data)))
		return err
	}))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(lines, "\n")), 0o600))
}

// expectStatus runs pawl and expects an exit status.
func expectStatus(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("pawl", args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("the exit status is %d, not %s", code, args[0])
	}
}

// changeJournal changes the records in some files of runs, as if a planner that sends tokens
// to another node had made them. The checksums follow.
func changeJournal(ts *testscript.TestScript, _ bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, file := range files {
		c, err := sqlite.Open(file, ``)
		ts.Check(err)
		content := runfile.InDatabase(c)
		run, _, _, err := runfile.ReadMeta(content)
		ts.Check(err)
		sum := runfile.FirstSum(run)
		for e, err := range runfile.ReadJournal(content) {
			ts.Check(err)
			r, err := e.Decode(runfile.ValuesOf(content, &e))
			ts.Check(err)
			for i, d := range r.Decisions {
				if made, ok := d.(decision.CreateToken); ok && string(made.Token.Node) == args[1] {
					made.Token.Node = workflow.NodeID(args[2])
					r.Decisions[i] = made
				}
			}
			if e.Encoded, err = r.Encode(); err != nil {
				ts.Fatalf("encode: %v", err)
			}
			sum = sum.SumAfter(&e.Encoded)
			_, err = c.Exec(`UPDATE journal SET decisions = ?, sum = ? WHERE seq = ?`, string(e.Decisions), sum[:], e.Seq)
			ts.Check(err)
		}
		ts.Check(c.Close())
	}
}
