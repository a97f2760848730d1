package inspector_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
)

// A stream is what a browser reads of a page that is watched.
type stream struct {
	shop  *shop
	lines *bufio.Reader
	close func()
}

type frame struct {
	Seq   int64
	HTML  string
	Title string
	Ended bool
}

func (s *shop) watch(address string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"live/"+address, nil)
	require.NoError(s.t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, resp.StatusCode)
	require.Equal(s.t, "text/event-stream", resp.Header.Get("Content-Type"))
	out := &stream{s, bufio.NewReader(resp.Body), func() { cancel(); resp.Body.Close() }}
	s.t.Cleanup(out.close)
	return out
}

// until reads frames up to one that people would read a text in.
func (s *stream) until(text string) frame {
	s.shop.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		require.NoError(s.shop.t, err)
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var f frame
		require.NoError(s.shop.t, json.Unmarshal([]byte(data), &f))
		if strings.Contains(textOf(s.shop.t, f.HTML), text) {
			return f
		}
	}
}

// A viewer of a page gets it anew when what it shows has moved, until that has ended.
func TestFrames(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	page := s.see("run/order-1?view=token&token=3")
	require.Contains(t, page, `data-live="../live/run/order-1?view=token&amp;token=3"`)

	run, home := s.watch("run/order-1"), s.watch("")
	first := run.until("1 parked")
	require.Equal(t, int64(4), first.Seq)
	require.Equal(t, "order-1", first.Title)
	home.until("1 parked task")
	require.NotContains(t, first.HTML, "<main")

	require.NoError(t, s.engine.Complete(t.Context(), s.key("order-1", "load"), nil))
	f := run.until("2 done")
	require.Greater(t, f.Seq, first.Seq)
	require.False(t, f.Ended)
	require.NoError(t, s.engine.Cancel(t.Context(), "order-1", "enough"))
	require.True(t, run.until("cancelled").Ended)
	home.until("0 parked tasks")
	_, err := run.lines.ReadString(0)
	require.Error(t, err, "the stream ends with the run")

	// One page for all who have the same rights, and another one for others.
	more := []*stream{s.watch(""), s.watch(""), s.serve(as("ann", api.View)).watch("")}
	for _, one := range more {
		one.until("0 parked tasks")
		one.close()
	}
}

// Only what changes is streamed.
func TestNoFrames(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	require.NotContains(t, s.see("run/order-1?view=journal"), "data-live")
	require.NotContains(t, s.see("engine"), "data-live")
	for _, address := range []string{"engine", "run/order-1?view=journal", "run/nobody", "nothing", "live/", "act?do=cancel&target=0+order-1"} {
		stream := s.watch(address)
		text, err := stream.lines.ReadString(0)
		require.Error(t, err)
		require.NotContains(t, text, "frame", address)
		require.Regexp(t, `^event: gone\ndata: ".+"\n\n$`, text, "%s: it would be asked for again and again", address)
	}
	status, _ := s.serve(as("ann", 0)).get("live/")
	require.Equal(t, 403, status)
}

// The title of a frame shows what would turn the text around, as its page does.
func TestTheTitleOfAFrame(t *testing.T) {
	s := openShop(t)
	s.start("a<b\u202ec>&", "name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}]", nil)
	require.Equal(t, `a<b\u202ec>&`, s.watch("run/a%3Cb%E2%80%AEc%3E&").until("waits").Title)
}

// A HEAD request of a stream is answered with its headers alone, and ends.
func TestNoFramesOfAHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		h := inspector.Handler(engine, inspector.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.View, nil }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodHead, "/live/runs", nil))
		require.NoError(t, ctx.Err(), "the stream goes on")
		require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
		require.Empty(t, w.Body.String())
	})
}

// A stream ends soon after its viewer has lost a right.
func TestRightsThatAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		for _, revoked := range []error{nil, errors.New("logged out")} {
			asked := 0
			h := inspector.Handler(engine, inspector.Options{Identify: func(*http.Request) (string, api.Rights, error) {
				if asked++; asked > 1 {
					return "ann", api.View, revoked
				}
				return "ann", api.All, nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/live/runs", nil))
			require.NoError(t, ctx.Err(), "the stream goes on")
			cancel()
		}
	})
}

// A viewer who watches as many pages as one may keeps no other from watching.
func TestOneViewerKeepsNobodyOut(t *testing.T) {
	s := openShop(t)
	s = s.serve(inspector.Options{Identify: func(r *http.Request) (string, api.Rights, error) {
		return r.URL.Query().Get("who"), api.View, nil
	}})
	status := func(who string) int {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"live/?who="+who, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { cancel(); resp.Body.Close() })
		return resp.StatusCode
	}
	for range 64 {
		require.Equal(t, http.StatusOK, status("ann"))
	}
	require.Equal(t, http.StatusServiceUnavailable, status("ann"))
	require.Equal(t, http.StatusOK, status("bob"))
}

// A page of a run of more than a few records that moves does not ask why it stands where it stands; when the run rests, the
// answer comes, although nothing moves any more.
func TestWhyComesWhenARunRests(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.start("many", "name: many\nstart: late\nnodes: [{id: late, wait: {event: go}}]", nil)
	for range 60 {
		require.NoError(t, s.engine.Pause(t.Context(), "many"))
		require.NoError(t, s.engine.Resume(t.Context(), "many"))
	}
	page := s.watch("run/many")
	first := page.until("late")
	require.NotContains(t, textOf(t, first.HTML), "waits for the signal", "an answer of a run that may move on")
	at := page.until(`waits for the signal go`)
	require.Equal(t, first.Seq, at.Seq)
	require.NotContains(t, textOf(t, at.HTML), "As of record")
}

// Lists of what changes say when they were made, but for their frames: the browser knows when one came, and a frame in which nothing else
// is new is sent to nobody.
func TestListsSayWhenTheyWereMade(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	for _, address := range []string{"", "runs", "inbox", "workers"} {
		require.Regexp(t, `id="as-of" data-made>as of \d\d:\d\d:\d\d UTC<`, s.see(address), address)
		require.Contains(t, s.watch(address).until("").HTML, `id="as-of" data-made>as of now<`, address)
	}
	require.NotContains(t, s.see("run/order-1"), "data-made")
	require.NotContains(t, s.see("definitions"), "as-of")

	// A run as it was says what its badge is of.
	require.NoError(t, s.engine.Cancel(t.Context(), "order-1", "enough"))
	require.Contains(t, textOf(t, s.see("run/order-1?at=2")), "order-1 now cancelled")
	require.NotContains(t, textOf(t, s.see("run/order-1")), "now cancelled")
}
