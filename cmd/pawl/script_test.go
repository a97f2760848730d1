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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/workflow"
)

// TestMain lets this binary be the command too, under the name pawl in a folder of PATH.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pawl" {
		runAtNow()
	}
	if os.Args[0] == serviceName {
		runService()
	}
	os.Exit(runWithCommand(m))
}

func runWithCommand(m *testing.M) int {
	time.Local = time.UTC // which the scripts have
	if os.Getenv(elsewhere) != "" {
		time.Local = time.FixedZone("there", 5*3600)
	}
	folder, err := os.MkdirTemp("", "pawl-command")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	binary, err := os.Executable()
	if err == nil {
		err = os.Symlink(binary, filepath.Join(folder, "pawl"))
	}
	if err == nil {
		err = os.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		panic(err)
	}
	return harness.RunInMemory(m)
}

// runAtNow is main by the clock that the variable NOW sets, which dies where the variable of harness.Killer says. To complete a word, it
// waits longer for an engine than people would: one on a busy machine may be off the processor.
func runAtNow() {
	con := newConsole(os.Stdin, os.Stdout, os.Stderr)
	con.Patience = time.Minute
	con.setNow(os.Getenv("NOW"))
	hit, err := harness.Killer()
	if err != nil {
		panic(err)
	}
	if con.hook == nil {
		con.hook = &testhook.Hook{}
	}
	con.hook.OnHit(hit)
	con.runProcess()
}

func (con *console) setNow(text string) {
	if now, err := time.Parse(time.RFC3339, text); err == nil {
		con.Now = func() time.Time { return now }
		con.hook = &testhook.Hook{}
		con.hook.OnNow(con.Now)
	}
}

var rewrite = flag.Bool("rewrite", false, "write what the commands print into the scripts")

// TestScripts plays the scripts in testdata. Besides those of testscript they
// have the commands below, and status N ARGS... and process N ARGS..., which run pawl
// and expect that exit status; process has input, and a process of its own. With the race detector they are those with an engine that is live.
// Quick runs of six days play them all.
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
	if !*rewrite {
		files = harness.SampleOfDay(t, harness.Figure(6, 3, 1), files)
	}
	require.NotEmpty(t, files)
	testscript.RunT(scripts{t}, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Values[isOpen] = new(bool)
			env.Values[liveEngine] = new(*pawl.Engine)
			env.Defer(func() {
				if _, err := replays.CheckBelow(env.WorkDir); err != nil {
					env.T().Fatal(err)
				}
			})
			return nil
		},
		UpdateScripts: *rewrite,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"pawl": runPawl, "directory": makeDirectory, "damage": damageDirectory, "open": openForGood, "live": openWithSocket, "backfilled": awaitBackfilled, "parked": makeParked, "finishwith": finishWith, "finish": finishRuns, "hash": hashFiles, "status": expectStatus, "process": expectProcess, "unlike": changeJournal, "orders": makeOrders, "costs": makeCosts, "timings": makeTimings, "night": makeNight, "twins": makeTwins, "sealed": makeSealed, "cut": cutFile, "remote": makeRemote, "pool": openPool, "cmpsized": compareSized,
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

// makeRemote makes an engine directory with a run, whose log and bases are in folders.
func makeRemote(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	log, err := folderlog.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	bases, err := blob.OpenFiles(ts.MkAbs(args[2]), blob.Options{})
	ts.Check(err)
	blobs, err := blob.OpenFiles(ts.MkAbs("blobs"), blob.Options{})
	ts.Check(err)
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{
		Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return "done", nil }}, Durability: pawl.ProcessCrash, Blobs: blobs,
		Remote: pawl.RemoteOptions{Log: log, Bases: bases},
	})
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(oneStep))
	ts.Check(err)
	_, err = engine.Run(ctx, workflow.Run{ID: workflow.RunID(args[3]), Definition: def}, map[string]any{"file": nil})
	ts.Check(err)
	ts.Check(errors.Join(engine.Close(ctx), bases.Close(), blobs.Close()))
}

// damageDirectory flips a bit at the end of the file of run b and removes the blob.
func damageDirectory(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	d, err := store.Open(dir, store.Options{})
	ts.Check(err)
	run := workflow.RunID("b")
	if len(args) > 1 {
		run = workflow.RunID(args[1])
	}
	h, err := d.Head(run)
	ts.Check(err)
	ts.Check(d.Close())
	path := filepath.Join(dir, h.File)
	data, err := os.ReadFile(path)
	ts.Check(err)
	data[len(data)-300] ^= 4
	ts.Check(os.WriteFile(path, data, 0o600))
	if len(args) > 1 {
		return
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "*"))
	ts.Check(err)
	ts.Check(os.Remove(blobs[0]))
}

// openForGood opens a directory until the end of the script.
func openForGood(ts *testscript.TestScript, _ bool, args []string) {
	engine := openEngine(ts, args[0], nil)
	*ts.Value(isOpen).(*bool) = true
	ts.Defer(func() { ts.Check(engine.Close(context.Background())) })
}

// openWithSocket opens a directory until the end of the script, and serves the command.
func openWithSocket(ts *testscript.TestScript, _ bool, args []string) {
	engine, err := pawl.Open(context.Background(), ts.MkAbs(args[0]), pawl.Options{Socket: api.Local})
	ts.Check(err)
	*ts.Value(isOpen).(*bool) = true
	*ts.Value(liveEngine).(**pawl.Engine) = engine
	ts.Defer(func() { ts.Check(engine.Close(context.Background())) })
}

// awaitBackfilled waits until a schedule of the engine that is live has decided so many firings of backfills: the act only asks for
// them.
func awaitBackfilled(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := strconv.Atoi(args[1])
	ts.Check(err)
	engine := *ts.Value(liveEngine).(**pawl.Engine)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for made := 0; made < wanted; {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			ts.Fatalf("%s has %d firings of backfills after a minute, not %d", args[0], made, wanted)
		}
		events, err := engine.Schedules().Events(ctx, args[0], time.Time{}, time.Time{})
		ts.Check(err)
		made = 0
		for i := range events {
			if events[i].Cause == "backfill" {
				made++
			}
		}
	}
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

// shownSize is a size as commands write it; times and random names in a file change it.
var shownSize = regexp.MustCompile(`[0-9.]+ [KMG]?i?B\b`)

// compareSized is cmp for what has sizes, which may be any.
func compareSized(ts *testscript.TestScript, _ bool, args []string) {
	got, want := shownSize.ReplaceAllString(ts.ReadFile(args[0]), "N KiB"), ts.ReadFile(args[1])
	if got != want {
		ts.Fatalf("%s is\n%s\nand not\n%s", args[0], got, want)
	}
}
