package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
)

// A dirFlag is embedded in the commands about the runs of an engine. Dir may be a file of runs too, which reachEngine opens as an exhibit.
type dirFlag struct {
	Dir string `default:"data" env:"PAWL_DIR" placeholder:"DIR" help:"The engine directory, or an export or archive to look at; $PAWL_DIR, or data."`
	UTC bool   `name:"utc" help:"Show times in UTC, not in the zone of this machine."`
	keyFlag
	jsonFlag
}

// splitName takes the directory or file of runs out of a name such as DIR:RUN. Where the command line names one, the name is an id, which may have a colon.
func (f *dirFlag) splitName(con *console, run *string) {
	if dir, id, ok := replay.SplitName(*run); ok && !con.named {
		f.Dir, *run = dir, string(id)
	}
}

// dirText returns the flag that a command takes to ask the same directory; "" of the one that it asks without.
func (f *dirFlag) dirText() string {
	if f.Dir == cmp.Or(os.Getenv("PAWL_DIR"), "data") {
		return ""
	}
	return " --dir " + f.Dir
}

// A reached engine is one that answers: that of another process, or one that was opened for maintenance, in this process. All commands speak to it
// through the Client, in either case: so a command has one way to act, and a directory that nobody has open answers as its engine would. fixed
// implies that live is false. close must be called once; it is nil in no reached engine.
type reached struct {
	*api.Client
	source string            // which it is, as each screen says
	live   bool              // it is that of another process, in which runs go on
	fixed  bool              // it has the runs of a file, which nothing changes
	carry  http.RoundTripper // of requests to its API and, if it has them, its pages; the host does not matter
	close  func() error
}

// reachEngine asks the engine that has the directory open, else opens its files. Instead of a directory there may be a file of runs. A directory that
// an engine has open is never opened beside it: the lock of the directory forbids that. The order matters: asking the socket first avoids a failed
// attempt at the lock in the usual case. An engine that is starting has the lock before its socket answers, so it is asked again while the lock is
// held.
func (f dirFlag) reachEngine(ctx context.Context, con *console) (*reached, error) {
	if isRunsFile(f.Dir) {
		return f.openExhibit(ctx, con)
	}
	for tries := 1; ; tries++ {
		e, err := f.askEngine(ctx)
		if err == nil || !errors.Is(err, api.ErrNoEngine) {
			return e, err
		}
		// No engine answers. Either none has the directory, and its files can be opened, or one has it
		// without a socket, and then both errors are told.
		e, opened := f.openFiles(ctx, con)
		if errors.Is(opened, pawl.ErrLocked) && tries < tryReach && ctx.Err() == nil {
			continue
		}
		if errors.Is(opened, pawl.ErrLocked) {
			return nil, fmt.Errorf("%w: %w", opened, err) // why the engine that has it does not answer
		}
		return e, opened
	}
}

// How often, and how long each time, a command waits for a directory.
const (
	tryReach  = 5
	waitReach = 200 * time.Millisecond
)

// askEngine asks the engine that has the directory open; without one it fails with api.ErrNoEngine.
func (f dirFlag) askEngine(ctx context.Context) (*reached, error) {
	client, source, err := dialEngine(ctx, f.Dir)
	switch {
	case errors.Is(err, fs.ErrPermission) && !errors.Is(err, api.ErrNoEngine):
		return nil, fmt.Errorf("%w: only the user whose program has the directory open may ask it", err)
	case errors.Is(err, api.ErrNoEngine):
		return nil, err
	case err != nil:
		return nil, explainLoss(err)
	}
	carry := &http.Transport{IdleConnTimeout: time.Minute, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, f.Dir) }}
	closeClient := func() error { client.Close(); carry.CloseIdleConnections(); return nil }
	return &reached{Client: client, source: source, live: true, carry: carry, close: closeClient}, nil
}

// answerWithin bounds the wait for the first answers of an engine, which may be stopped or stuck.
const answerWithin = 10 * time.Second

// errSilent says that an engine takes connections and does not answer.
var errSilent = errors.New("the engine does not answer")

// dialEngine returns a client of the engine that has a directory open, and names it. It fails with api.ErrNoEngine, or errSilent with the process
// that has the directory.
func dialEngine(ctx context.Context, dir string) (client *api.Client, source string, err error) {
	asking, stop := context.WithTimeout(ctx, testhook.From(ctx).MaxNap(answerWithin))
	defer stop()
	if client, err = api.Dial(asking, dir); err == nil {
		var info api.EngineInfo
		if info, err = client.Engine(asking); err == nil {
			return client, fmt.Sprintf("live, pid %d", info.PID), nil
		}
		client.Close()
	}
	if asking.Err() == nil || ctx.Err() != nil {
		return nil, "", err
	}
	in, locked := store.Inspect(dir, nil)
	switch {
	case locked == nil:
		return nil, "", errors.Join(api.ErrNoEngine, in.Close()) // it has ended meanwhile
	case !errors.Is(locked, store.ErrLocked):
		return nil, "", errors.Join(api.ErrNoEngine, locked) // for another reason than an engine
	}
	who := "a program"
	if held := (*store.LockedError)(nil); errors.As(locked, &held) && held.Process != 0 {
		who = fmt.Sprintf("process %d", held.Process)
	}
	return nil, "", &toldError{fmt.Sprintf("%s has %s open and does not answer", who, dir), errSilent}
}

// errGaveWay says why a command that only looks has ended early. It is told as a directory in use.
var errGaveWay = &toldError{"the program of this directory is starting, and this command has let it have the directory: ask again", pawl.ErrLocked}

// giveWay ends a command with errGaveWay once an engine waits for a directory which the command has opened only to look at, until stop is called. A
// command that changes runs comes to its own end: half of it would be done. For a file nobody waits.
func (con *console) giveWay(ctx context.Context, dir string) (stop func()) {
	if !con.looks || con.end == nil || !isEngineDirectory(dir) {
		return func() {}
	}
	ctx, stop = context.WithCancel(ctx)
	go func() { // until stop
		if store.AwaitEngine(ctx, dir) == nil {
			con.end(errGaveWay)
		}
	}()
	return stop
}

// openFiles opens a directory for maintenance. An engine that is open for maintenance changes runs if it is told to, but performs no tasks and lets
// no time pass: looking at the directory of a program that is not running does not make its runs go on.
func (f dirFlag) openFiles(ctx context.Context, con *console) (*reached, error) {
	// A misspelt --dir is answered here, with what to do about it.
	if _, err := os.Stat(filepath.Join(f.Dir, "pawl.db")); errors.Is(err, fs.ErrNotExist) {
		if runs, _ := os.Stat(filepath.Join(f.Dir, "runs")); runs != nil && runs.IsDir() {
			return nil, &toldError{fmt.Sprintf("%s is missing: restore a backup, or pawl repair %s INTO, which needs only the files of runs", filepath.Join(f.Dir, "pawl.db"), f.Dir), pawl.ErrCorrupt}
		}
		return nil, &toldError{f.Dir + " is no engine directory, name one with --dir or PAWL_DIR", fs.ErrNotExist}
	}
	keys, err := f.codec()
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(con.Errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	engine, err := pawl.Open(ctx, f.Dir, pawl.Options{Maintenance: true, Codec: keys, Logger: logger, LockWait: waitReach})
	if held := (*pawl.LockedError)(nil); errors.As(err, &held) && held.Command == "" {
		return nil, fmt.Errorf("%w, or let it serve the command with pawl.Options{Socket: inspector.Local}", err)
	}
	if errors.Is(err, syscall.EROFS) {
		return nil, &toldError{errorText(err), errors.Join(errReadOnly, err)}
	}
	if err != nil {
		return nil, err
	}
	stopGivingWay := con.giveWay(ctx, f.Dir)
	// The same handler as on a socket is served inside of the process, through pipes: nobody else can reach it.
	l := &localListener{made: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan struct{})
	go func() { // until the listener is closed
		defer close(served)
		inspector.Local(engine, l)
	}()
	carry := &http.Transport{DialContext: l.dialServer}
	client := api.NewClient("http://localhost", &http.Client{Transport: carry})
	// The server ends before the engine does, since its requests use it; and the engine is closed even if the command was interrupted.
	closeAll := func() error {
		stopGivingWay()
		client.Close()
		_ = l.Close() // it cannot fail
		<-served
		return engine.Close(context.WithoutCancel(ctx))
	}
	return &reached{Client: client, source: filesText(f.zoneOf(con.Now())), carry: carry, close: closeAll}, nil
}

// errReadOnly says that a directory cannot be opened where nothing can be written.
var errReadOnly = errors.New("the file system is read-only")

// withEngine does something with the engine of the directory. It closes the engine in any case, and joins that error to the one of do. Only a file of
// runs refuses for lack of rights, since requests go there for reading only: withEngine tells the refusal in those terms.
func (f dirFlag) withEngine(ctx context.Context, con *console, do func(*reached) error) error {
	e, err := f.reachEngine(ctx, con)
	if err != nil {
		return err
	}
	err = explainLoss(do(e))
	if e.fixed && errors.Is(err, &api.Error{Code: "forbidden"}) {
		err = errExhibit
	}
	return errors.Join(err, e.close())
}

// errLost says that an engine which was there does not answer any more.
var errLost = errors.New("the connection with the engine broke")

// explainLoss says so of the error of a connection. An unknown outcome stays what it is, as its
// text says more and it has an exit status of its own; so does an interrupt.
func explainLoss(err error) error {
	asked := (*url.Error)(nil)
	if errors.Is(err, context.Canceled) || errors.Is(err, pawl.ErrUnknown) || !errors.As(err, &asked) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	if asked == err { //nolint:errorlint // what stands around it says more than the request
		err = asked.Err
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// A localListener connects a client and a server of one process. made has no buffer: a connection
// is there only when Accept takes it. done is closed once, by Close.
type localListener struct {
	made chan net.Conn
	done chan struct{}
	once sync.Once
}

// Accept implements net.Listener.
func (l *localListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.made:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *localListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *localListener) Addr() net.Addr { return &net.UnixAddr{Name: "local", Net: "unix"} }

// dialServer connects with the server that accepts from l. If the server has ended, the pipe is left to the garbage collector: nothing is behind it.
func (l *localListener) dialServer(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.made <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
