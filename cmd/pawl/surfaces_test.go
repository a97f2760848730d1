package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// An actCase is one act as each surface asks for it, on a run of its own. A surface that has not got the act has nil.
type actCase struct {
	name       string
	definition string
	before     func(c *surfaces, id workflow.RunID) // what was done to the run before
	want       workflow.RunStatus                   // of the run afterwards; the same if it is refused
	refused    error                                // by every surface but, where unrefused is set, the engine's method

	method    func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error
	unrefused bool
	operation api.Operation
	page      url.Values
	command   []string // RUN is the id
}

// surfaces are all from which somebody acts on one engine.
type surfaces struct {
	t      *testing.T
	engine *pawl.Engine
	dir    string
	client *api.Client
	page   string
}

const (
	taskRun     = "name: task\nstart: a\nnodes: [{id: a, task: t, retry: {maxAttempts: 1, exhausted: park}}]\n"
	waitRun     = "name: wait\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n"
	approvalRun = "name: ask\nstart: a\nnodes: [{id: a, approval: {message: ok}}]\n"
	fanOutRun   = "name: fan\nstart: f\nnodes: [{id: f, task: t}, {id: b, task: t}]\ntransitions: [{from: f, to: b, foreach: {collection: '[1]', as: x}, siblingGroup: g}]\n"
)

func openSurfaces(t *testing.T) *surfaces {
	t.Helper()
	s := &surfaces{t: t, dir: replays.Dir(t)}
	var err error
	pending := pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}
	s.engine, err = pawl.Open(t.Context(), s.dir, pawl.Options{Executor: pending, Socket: inspector.Local})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.engine.Close(context.Background())) })
	s.client, err = api.Dial(t.Context(), s.dir)
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	server := httptest.NewServer(inspector.Handler(s.engine, inspector.Options{
		Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil },
	}))
	t.Cleanup(server.Close)
	s.page = server.URL + "/"
	return s
}

func (s *surfaces) start(id workflow.RunID, definition string) {
	s.t.Helper()
	def, err := workflow.ParseYAML([]byte(definition))
	require.NoError(s.t, err)
	require.NoError(s.t, s.engine.Start(s.t.Context(), workflow.Run{ID: id, Definition: def}, nil))
}

// keyOf returns the key of the attempt that runs.
func (s *surfaces) keyOf(id workflow.RunID) pawl.Key {
	s.t.Helper()
	for x, err := range s.engine.Tokens(s.t.Context(), id, pawl.TokenFilter{Status: []workflow.TokenStatus{workflow.Dispatched}}) {
		require.NoError(s.t, err)
		return x.Key
	}
	s.t.Fatalf("nothing runs in %s", id)
	return ""
}

func (s *surfaces) park(id workflow.RunID) {
	s.t.Helper()
	require.NoError(s.t, s.engine.Fail(s.t.Context(), s.keyOf(id), pawl.TaskError{Code: "no"}))
}

func (s *surfaces) complete(id workflow.RunID) {
	s.t.Helper()
	require.NoError(s.t, s.engine.Complete(s.t.Context(), s.keyOf(id), nil))
}

func (s *surfaces) statusOf(id workflow.RunID) workflow.RunStatus {
	s.t.Helper()
	sum, err := s.engine.Summary(s.t.Context(), id)
	require.NoError(s.t, err)
	return sum.Status
}

// runCommand runs the command as a person does who answers its questions.
func (s *surfaces) runCommand(in io.Reader, args ...string) (status int, out string) {
	var text bytes.Buffer
	con := &console{In: in, Out: &text, Errs: &text, Now: time.Now}
	status = con.runArguments(s.t.Context(), append(args, "--dir", s.dir))
	return status, text.String()
}

// askPage gets a page, or sends a form.
func (s *surfaces) askPage(address string, form url.Values) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.page+address, nil)
	if form != nil {
		r, err = http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.page+address, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	require.NoError(s.t, err)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return answer.StatusCode, string(body)
}

// An answer is what a surface says of an act: which status the run has then, or how it refuses.
type answer struct {
	status  workflow.RunStatus
	refusal string // the whole text; "" of none
	is      bool   // the refusal is the one that is expected, as far as the surface tells
}

// A surface tries an act, or does it.
type surface struct {
	name string
	has  func(x *actCase) bool
	act  func(s *surfaces, x *actCase, id workflow.RunID, dry bool) answer
}

var wouldBe = regexp.MustCompile(`(?:then it would be|nothing would change: \S+ is) (\w+)`)
var pageWouldBe = regexp.MustCompile(`the run would be <[^>]*>(?:<svg.*?</svg>)?\s*([a-z ]+)`)

func allSurfaces() []surface {
	return []surface{
		{"method", func(x *actCase) bool { return x.method != nil }, actByMethod},
		{"api", func(x *actCase) bool { return x.operation.Act != nil }, actByAPI},
		{"page", func(x *actCase) bool { return x.page != nil }, actByPage},
		{"command", func(x *actCase) bool { return x.command != nil }, actByCommand},
	}
}

func (s *surfaces) answerOf(x *actCase, status workflow.RunStatus, err error) answer {
	if err != nil {
		return answer{status: status, refusal: err.Error(), is: errors.Is(err, x.refused)}
	}
	return answer{status: status}
}

func actByMethod(s *surfaces, x *actCase, id workflow.RunID, dry bool) answer {
	ctx := pawl.Because(pawl.As(s.t.Context(), "ann"), "a test")
	if !dry {
		err := x.method(ctx, s.engine, id)
		return s.answerOf(x, s.statusOf(id), err)
	}
	sim, err := s.engine.Simulate(ctx, pawl.OfRun{Run: id})
	require.NoError(s.t, err)
	act := x.operation.Act
	if vote, ok := act.(pawl.Vote); ok {
		vote.By = "ann"
		act = vote
	}
	if x.unrefused {
		act = pawl.Cancel{Ended: true}
	}
	err = sim.Do(ctx, act)
	return s.answerOf(x, sim.Summary().Status, err)
}

func actByAPI(s *surfaces, x *actCase, id workflow.RunID, dry bool) answer {
	o := x.operation
	o.By, o.Reason = "ann", "a test"
	if !dry {
		_, err := s.client.Do(s.t.Context(), id, o)
		return s.answerOf(x, s.statusOf(id), err)
	}
	done, err := s.client.DryRun(s.t.Context(), id, o)
	if err != nil {
		return s.answerOf(x, s.statusOf(id), err)
	}
	return answer{status: done.Future.Outcome.Status}
}

func actByPage(s *surfaces, x *actCase, id workflow.RunID, dry bool) answer {
	form := url.Values{"target": {"0 " + string(id)}, "reason": {"a test"}}
	for name, value := range x.page {
		form[name] = value
		if name == "target" {
			form[name] = []string{value[0] + " " + string(id)}
		}
	}
	out := answer{status: s.statusOf(id)}
	if dry {
		status, page := s.askPage("act?"+form.Encode(), nil)
		require.Equal(s.t, 200, status, page)
		page, _, _ = strings.Cut(page, "If it were")
		if _, out.refusal, _ = strings.Cut(page, "It would be refused: "); out.refusal != "" {
			out.is = strings.Contains(out.refusal, x.refused.Error())
		}
		if m := pageWouldBe.FindStringSubmatch(page); m != nil {
			require.NoError(s.t, out.status.UnmarshalText([]byte(strings.TrimSpace(m[1]))))
		}
		return out
	}
	status, page := s.askPage("act", form)
	if out.status = s.statusOf(id); status != http.StatusSeeOther {
		require.Equal(s.t, http.StatusConflict, status, page)
		out.refusal, out.is = page, strings.Contains(page, x.refused.Error())
	}
	return out
}

func actByCommand(s *surfaces, x *actCase, id workflow.RunID, dry bool) answer {
	var args []string
	for _, word := range x.command {
		args = append(args, strings.ReplaceAll(word, "RUN", string(id)))
	}
	if args = append(args, "-m", "a test", "--by", "ann"); dry {
		args = append(args, "--dry-run")
	}
	status, text := s.runCommand(strings.NewReader(""), args...)
	out := answer{status: s.statusOf(id)}
	if status != exitDone {
		out.refusal, out.is = text, x.refused != nil && status == statusOf(x.refused) && strings.Contains(text, x.refused.Error())
	} else if dry {
		m := wouldBe.FindStringSubmatch(text)
		require.NotNil(s.t, m, text)
		require.NoError(s.t, out.status.UnmarshalText([]byte(m[1])))
	}
	return out
}

func actCases() []actCase {
	const done, running, paused, cancelled = workflow.RunCompleted, workflow.RunRunning, workflow.RunPaused, workflow.RunCancelled
	at := func(id workflow.RunID) pawl.Target { return pawl.Target{Run: id, Node: "a"} }
	pause := func(s *surfaces, id workflow.RunID) { require.NoError(s.t, s.engine.Pause(s.t.Context(), id)) }
	ofEngine := func(do func(*pawl.Engine, context.Context, workflow.RunID) error) func(context.Context, *pawl.Engine, workflow.RunID) error {
		return func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error { return do(e, ctx, id) }
	}
	cancel := actCase{
		definition: taskRun, want: cancelled, operation: api.Operation{Act: pawl.Cancel{}}, page: url.Values{"do": {"cancel"}}, command: []string{"cancel", "RUN"},
		method: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error { return e.Cancel(ctx, id, "a test") },
	}
	pausing := actCase{
		definition: taskRun, want: paused, operation: api.Operation{Act: pawl.Pause{}}, page: url.Values{"do": {"pause"}}, command: []string{"pause", "RUN"},
		method: ofEngine((*pawl.Engine).Pause),
	}
	signal := actCase{
		definition: waitRun, want: done, operation: api.Operation{Act: pawl.Signal{Name: "go"}}, page: url.Values{"do": {"signal"}, "name": {"go"}},
		command: []string{"signal", "RUN", "go"},
		method: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
			return e.Signal(ctx, id, workflow.Signal{Name: "go"})
		},
	}
	retry := actCase{
		definition: taskRun, want: running, operation: api.Operation{Act: pawl.Retry{Target: pawl.Target{Node: "a"}}}, page: url.Values{"do": {"retry"}, "target": {"1"}},
		command: []string{"retry", "RUN", "a"},
		method: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
			return e.Retry(ctx, at(id), pawl.RetryOptions{})
		},
	}
	skip := actCase{
		definition: taskRun, want: done, operation: api.Operation{Act: pawl.Skip{Target: pawl.Target{Node: "a"}}}, page: url.Values{"do": {"skip"}, "target": {"1"}},
		command: []string{"skip", "RUN", "a"},
		method:  func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error { return e.Skip(ctx, at(id), nil) },
	}
	vote := func(yes bool, page, word string) actCase {
		return actCase{
			definition: approvalRun, want: done, operation: api.Operation{Act: pawl.Vote{Target: pawl.Target{Node: "a"}, Approved: yes}}, page: url.Values{"do": {page}, "target": {"1"}},
			command: []string{"vote", "RUN", "a", word},
			method: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
				return e.Vote(ctx, at(id), workflow.Ballot{By: "ann", Approved: yes})
			},
		}
	}
	group := pawl.GroupTarget{Group: "g"}
	fan := func(s *surfaces, id workflow.RunID) { s.complete(id) }
	of := func(x actCase, name string, before func(*surfaces, workflow.RunID), want workflow.RunStatus, refused error) actCase {
		x.name, x.before, x.want, x.refused = name, before, want, refused
		return x
	}
	cancelEnded := of(cancel, "cancel of one that has ended", (*surfaces).complete, done, pawl.ErrEnded)
	cancelEnded.unrefused = true // for the method that is no error, so that it may be repeated
	return []actCase{
		of(cancel, "cancel", nil, cancelled, nil), cancelEnded,
		of(cancel, "cancel again", func(s *surfaces, id workflow.RunID) { require.NoError(s.t, s.engine.Cancel(s.t.Context(), id, "")) }, cancelled, nil),
		of(pausing, "pause", nil, paused, nil), of(pausing, "pause of one that has ended", (*surfaces).complete, done, pawl.ErrEnded),
		of(actCase{
			definition: taskRun, operation: api.Operation{Act: pawl.Resume{}}, page: url.Values{"do": {"resume"}}, command: []string{"resume", "RUN"},
			method: ofEngine((*pawl.Engine).Resume),
		}, "resume", pause, running, nil),
		of(signal, "signal", nil, done, nil),
		of(signal, "signal to one that has ended", func(s *surfaces, id workflow.RunID) {
			require.NoError(s.t, s.engine.Cancel(s.t.Context(), id, ""))
		}, cancelled, pawl.ErrEnded),
		of(retry, "retry", (*surfaces).park, running, nil), of(retry, "retry of what runs", nil, running, pawl.ErrNotLive),
		of(skip, "skip", (*surfaces).park, done, nil), of(skip, "skip of what runs", nil, done, nil),
		of(vote(true, "approve", "yes"), "approve", nil, done, nil), of(vote(false, "reject", "no"), "reject", nil, done, nil),
		of(vote(true, "approve", "yes"), "approve what has ended", func(s *surfaces, id workflow.RunID) {
			require.NoError(s.t, s.engine.Cancel(s.t.Context(), id, ""))
		}, cancelled, pawl.ErrEnded),
		{name: "add a branch", definition: fanOutRun, before: fan, want: running, operation: api.Operation{Act: pawl.AddBranch{Group: "g"}}, command: []string{"add", "RUN", "g"}, method: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
			g := group
			g.Run = id
			return e.AddBranch(ctx, g, nil)
		}},
		{name: "cancel nodes", definition: taskRun, want: done, operation: api.Operation{Act: pawl.CancelNodes{Nodes: []workflow.NodeID{"a"}}}, command: []string{"cancel", "RUN", "--node", "a"}, method: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
			return e.CancelNodes(ctx, id, "a")
		}},
	}
}

// Every surface says of an act what it would do, and does that, as all the others do.
func TestSurfacesAgree(t *testing.T) {
	s := openSurfaces(t)
	for i, x := range actCases() {
		for _, by := range allSurfaces() {
			if !by.has(&x) {
				continue
			}
			id, what := workflow.RunID(fmt.Sprintf("%s-%d", by.name, i)), x.name+" by "+by.name
			s.start(id, x.definition)
			if x.before != nil {
				x.before(s, id)
			}
			was := s.statusOf(id)
			wantRefusal := x.refused != nil && (by.name != "method" || !x.unrefused)
			for _, dry := range []bool{true, false} {
				got := by.act(s, &x, id, dry)
				require.Equal(t, wantRefusal, got.refusal != "", "%s, tried %v: %s", what, dry, got.refusal)
				require.True(t, !wantRefusal || got.is, "%s, tried %v: %s", what, dry, got.refusal)
				require.Equal(t, x.want, got.status, "%s, tried %v", what, dry)
				if dry {
					require.Equal(t, was, s.statusOf(id), "%s was tried, and done", what)
				}
			}
		}
	}
}

// afterwards is an answer at a terminal before which something happens.
type afterwards struct {
	happens func()
	strings.Reader
}

func (a *afterwards) Read(p []byte) (int, error) {
	if a.happens != nil {
		a.happens()
	}
	a.happens = nil
	return a.Reader.Read(p)
}

// A surface that lists parked tasks ends no attempt that somebody else has begun since: it acts on what it has listed.
func TestSurfacesSpareWhatRunsAgain(t *testing.T) {
	s := openSurfaces(t)
	skipListed := func(page string, meanwhile func()) string {
		target := regexp.MustCompile(`name="target" value="([^"]+)"`).FindStringSubmatch(page)
		require.NotNil(t, target, page)
		meanwhile()
		status, page := s.askPage("act", url.Values{"do": {"skip"}, "target": {target[1]}, "reason": {"listed"}})
		require.Equal(t, http.StatusConflict, status)
		return page
	}
	skipLinked := func(address string, meanwhile func()) string {
		_, page := s.askPage(address, nil)
		_, form := s.askPage(html.UnescapeString(regexp.MustCompile(`act\?do=skip[^"]+`).FindString(page)), nil)
		return skipListed(form, meanwhile)
	}
	for name, act := range map[string]func(id workflow.RunID, meanwhile func()) (said string){
		"api": func(id workflow.RunID, meanwhile func()) string {
			for l, err := range s.client.DeadLetters(t.Context(), pawl.DeadLetterFilter{Run: id}) {
				require.NoError(t, err)
				meanwhile()
				_, err = s.client.Do(t.Context(), id, api.Operation{Act: pawl.Skip{Target: pawl.Target{Token: l.Token, Parked: true}}, By: "ann", Reason: "listed"})
				require.ErrorIs(t, err, pawl.ErrNotLive)
				return err.Error()
			}
			return ""
		},
		"command": func(id workflow.RunID, meanwhile func()) string {
			status, text := s.runCommand(&afterwards{meanwhile, *strings.NewReader("y\n")}, "skip", "--where", fmt.Sprintf("run == %q", id), "-m", "listed")
			require.Equal(t, exitRefused, status, text)
			return text
		},
		"check box": func(_ workflow.RunID, meanwhile func()) string {
			_, inbox := s.askPage("inbox", nil)
			return skipListed(inbox, meanwhile)
		},
		"link": func(_ workflow.RunID, meanwhile func()) string { return skipLinked("inbox", meanwhile) },
		"page of the token": func(id workflow.RunID, meanwhile func()) string {
			return skipLinked("run/"+string(id)+"?view=token&token=1", meanwhile)
		},
	} {
		id := workflow.RunID(strings.ReplaceAll(name, " ", "-"))
		s.start(id, taskRun)
		s.park(id)
		var key pawl.Key
		said := act(id, func() {
			require.NoError(t, s.engine.Retry(t.Context(), pawl.Target{Run: id, Node: "a"}, pawl.RetryOptions{}))
			key = s.keyOf(id)
		})
		require.Contains(t, said, pawl.ErrNotLive.Error(), name)
		require.Equal(t, key, s.keyOf(id), "%s: the attempt that somebody has begun runs", name)
		s.complete(id)
	}
}
