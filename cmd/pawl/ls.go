package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

var lsVerb = verb{
	name:    "ls",
	help:    "List runs: where they are, since when, and what comes next.",
	example: []string{"pawl ls --status running,failed", `pawl ls --where 'status == "failed" && labels.customer == "7"'`, "pawl ls --workflow order --json", "pawl ls --status running --watch"},
	command: func() command { return new(lsCommand) },
}

// A filterFlag is embedded in the commands that are about some of the runs.
type filterFlag struct {
	Workflow string   `placeholder:"NAME" help:"Runs of definitions of this name."`
	Status   []string `placeholder:"STATUS" help:"Runs in any of these: running, paused, suspended, completed, failed, timed_out, cancelled."`
	Tenant   string   `placeholder:"NAME" help:"Runs on whose behalf."`
	Prefix   string   `placeholder:"TEXT" help:"Runs whose ids begin so."`
	Roots    bool     `help:"Runs without a parent."`
	Where    string   `placeholder:"CONDITION" help:"A condition in CEL on run, workflow, version, status, labels, started, ended, code, tenant, parent, forkedFrom and seq."`

	Label map[string]string `mapsep:"," placeholder:"KEY=VALUE" help:"Runs with this label; of several, all."`
}

// isEmpty reports whether all runs fit. A flag that is added to filterFlag must be added here: else a command that changes what is chosen by it alone
// would say that nothing is chosen, or act on named runs and ignore it.
func (f *filterFlag) isEmpty() bool {
	return f.Workflow == "" && len(f.Status) == 0 && f.Tenant == "" && f.Prefix == "" && !f.Roots && f.Where == "" && len(f.Label) == 0
}

// runFilter returns the filter of the engine that the flags stand for. It only reads names of
// statuses; the condition of Where is checked by the engine.
func (f *filterFlag) runFilter() (pawl.RunFilter, error) {
	out := pawl.RunFilter{Workflow: f.Workflow, Tenant: f.Tenant, Prefix: f.Prefix, Roots: f.Roots, Where: f.Where, Labels: f.Label}
	for _, text := range f.Status {
		var s workflow.RunStatus
		if err := s.UnmarshalText([]byte(text)); err != nil {
			return out, fmt.Errorf("--status: %w", err)
		}
		out.Status = append(out.Status, s)
	}
	return out, nil
}

// An lsCommand lists runs.
type lsCommand struct {
	filterFlag
	Limit  *int   `short:"n" placeholder:"N" help:"At most so many; 0 lists all. If this is not given, 50, and all with --json."`
	Oldest bool   `help:"Those that were started first come first."`
	Sort   string `placeholder:"NAME" help:"Those come first whose results have reported the largest sum of this number, such as cost."`
	Watch  bool   `short:"w" help:"List them again whenever one has changed, once a second at most, until interrupted; with --json, write each that has changed."`
	dirFlag
}

// defaultLimit is how many runs are listed for people.
const defaultLimit = 50

// runCommand lists the runs, the newest first.
func (c *lsCommand) runCommand(ctx context.Context, con *console) error {
	f, err := c.runFilter()
	if err != nil {
		return err
	}
	switch {
	case c.Limit == nil && !c.JSON: // a program would not see that there are more
		f.Limit = defaultLimit
	case c.Limit != nil && *c.Limit < 0:
		return fmt.Errorf("--limit: %d is less than 0, which lists all", *c.Limit)
	case c.Limit != nil:
		f.Limit = *c.Limit
	}
	f.Newest, f.Sort = !c.Oldest, c.Sort
	return c.withEngine(ctx, con, func(e *reached) error {
		if c.Watch {
			return c.watchRuns(ctx, con, e, f)
		}
		return c.listRuns(ctx, con, e, f)
	})
}

// listRuns writes the runs as they are now.
func (c *lsCommand) listRuns(ctx context.Context, con *console, e *reached, f pawl.RunFilter) error {
	rows := [][]string{c.withSum([]string{"RUN", "WORKFLOW", "STATUS", "AT", "STARTED", "TOOK", "NEXT"}, strings.ToUpper(c.Sort))}
	now, wrong, limit, listed, numbers := con.Now(), troubled{}, f.Limit, 0, map[string]float64{}
	if limit > 0 {
		f.Limit++ // to see whether there are more
	}
	for run, err := range e.Runs(ctx, f) {
		if err != nil {
			return err
		}
		if listed++; limit > 0 && listed > limit {
			break
		}
		maps.Copy(numbers, run.Meta)
		places, err := placesOf(ctx, e, &run)
		if errors.Is(err, pawl.ErrRunNotFound) { // it was purged meanwhile
			continue
		}
		if err := wrong.note(ctx, con, run.Run, err); err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, listedRun{run, places})
			continue
		}
		if run.Trouble != "" {
			rows = append(rows, c.withSum([]string{string(run.Run), run.Workflow, "damaged", run.Trouble, "", "", ""}, ""))
			continue
		}
		took := ""
		if run.Status.Final() {
			took = tookText(run.EndedAt.Sub(run.StartedAt))
		}
		definition := fmt.Sprintf("%s@%d", run.Workflow, max(run.Version, 1))
		row := []string{string(run.Run), definition, run.Status.String(), placeText(&run, places), c.instantText(run.StartedAt, now), took, nextText(run.Alarm, now)}
		rows = append(rows, c.withSum(row, sumText(run.Meta, c.Sort)))
	}
	if listed > 0 {
		c.sayUnknown(con, numbers)
	}
	if c.JSON {
		return wrong.saysNo()
	}
	if len(rows) > 1 {
		con.printTable(rows)
	}
	if limit > 0 && listed > limit && !c.isEmpty() { // how many fit, nobody has counted
		con.printLine("the first %s; --limit 0 shows all", countText(len(rows)-1))
		con.printSource(e.source)
		return wrong.saysNo()
	}
	return errors.Join(con.printTotal(ctx, e, len(rows)-1), wrong.saysNo())
}

// sayUnknown says so if no listed run has reported a number of the name by which they are sorted. A run that has would be the first.
func (c *lsCommand) sayUnknown(con *console, numbers map[string]float64) {
	if _, ok := numbers[c.Sort]; ok || c.Sort == "" {
		return
	}
	text := fmt.Sprintf("--sort: no run in this list has reported a number %q", c.Sort)
	names := slices.Sorted(maps.Keys(numbers))
	if i := slices.IndexFunc(names, func(name string) bool { return value.NearlyEqual(c.Sort, name) }); i >= 0 {
		text += fmt.Sprintf(" (did you mean %q?)", names[i])
	}
	if len(names) > 0 {
		text += "; there are " + strings.Join(names, ", ")
	}
	fmt.Fprintln(con.Errs, "pawl:", printableText(text))
}

// withSum returns a row with the sum by which the list is sorted behind the id, if it is.
func (c *lsCommand) withSum(row []string, sum string) []string {
	if c.Sort == "" {
		return row
	}
	return slices.Insert(row, 1, sum)
}

// sumText returns one of the sums of numbers that results have reported, "" without one of this name.
func sumText(meta map[string]float64, name string) string {
	if v, ok := meta[name]; ok {
		return numberText(v)
	}
	return ""
}

// numberText returns a number with all its digits.
func numberText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sumTexts returns sums of numbers that results have reported, each with its name.
func sumTexts(meta map[string]float64) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		texts = append(texts, name+" "+sumText(meta, name))
	}
	return texts
}

// printTotal says how many runs there are, besides those that are listed, and where that comes from.
func (con *console) printTotal(ctx context.Context, e *reached, listed int) error {
	info, err := e.Engine(ctx)
	if err != nil {
		return err
	}
	total := 0
	for _, c := range info.Counts {
		total += int(c.Runs)
	}
	con.printLine("%s of %s", countText(listed), pluralText(total, "run"))
	con.printSource(e.source)
	return nil
}

// A listedRun is a line of JSON.
type listedRun struct {
	pawl.RunSummary
	At []pawl.NodeOverview `json:"at,omitempty"` // the nodes where tokens live, with all that have been there
}

// placesOf returns the nodes where tokens of a run live. It is one question for each run that goes on, besides the list: --limit bounds them.
func placesOf(ctx context.Context, e *reached, run *pawl.RunSummary) ([]pawl.NodeOverview, error) {
	if run.Trouble != "" {
		return nil, &toldError{run.Trouble, pawl.ErrCorrupt}
	}
	if run.Status.Final() {
		return nil, nil
	}
	o, err := e.Overview(ctx, run.Run)
	return slices.DeleteFunc(o.Nodes, func(n pawl.NodeOverview) bool { return tokensText(n.Tokens) == "" }), err
}

// placeText says at which nodes a run is or, if it has not completed, why it has ended.
func placeText(run *pawl.RunSummary, places []pawl.NodeOverview) string {
	if run.Failure != nil {
		return failureText(run.Failure)
	}
	return strings.Join(placeTexts(places), ", ")
}

// placeTexts says of each node where tokens live what they do there. "split: 9,812 done · 3 task out"
// is one place; a node where nothing lives is left out.
func placeTexts(nodes []pawl.NodeOverview) (places []string) {
	for _, n := range nodes {
		if text := tokensText(n.Tokens); text != "" {
			places = append(places, string(n.Node)+": "+text)
		}
	}
	return places
}

// tokensText counts the live tokens at a node; "" if nothing lives there. A single one is told without its number.
func tokensText(tokens map[workflow.TokenStatus]int) string {
	live, all := []string(nil), 0
	// The statuses below Completed are those of tokens that live.
	for s := range workflow.Completed {
		all += tokens[s]
	}
	for s := range workflow.Completed {
		if n := tokens[s]; n == 1 && all == 1 {
			live = append(live, statusText(s))
		} else if n > 0 {
			live = append(live, countText(n)+" "+statusText(s))
		}
	}
	if done := tokens[workflow.Completed]; done > 0 && live != nil {
		live = append([]string{countText(done) + " done"}, live...)
	}
	return strings.Join(live, " · ")
}

// statusText names what a token does, in few words.
func statusText(s workflow.TokenStatus) string {
	if s == workflow.Dispatched {
		return "task out"
	}
	if s == workflow.WaitingForOperator {
		return "parked"
	}
	return strings.ReplaceAll(strings.TrimPrefix(s.String(), "waiting_"), "_", " ")
}

// failureText returns why a run has ended.
func failureText(f *workflow.Failure) string {
	text := f.Code
	if f.Node != "" {
		text = string(f.Node) + ": " + text
	}
	if f.Attempts > 1 {
		text += fmt.Sprintf(" after %d attempts", f.Attempts)
	}
	if f.Message != "" {
		text += ", " + f.Message
	}
	if f.Cause != nil {
		text += ", because " + failureText(f.Cause)
	}
	return text
}

// dueText says until when something lasts; "" if for ever.
func (f dirFlag) dueText(due, now time.Time) string {
	if due.IsZero() {
		return ""
	}
	return "until " + f.instantText(due, now)
}

// watchPause is how long a list stands at least before it is written again.
const watchPause = time.Second

// watchRuns writes the runs whenever one that may be among them has changed. A run that fits no more has changed as well, so that its
// status is left to the list.
func (c *lsCommand) watchRuns(ctx context.Context, con *console, e *reached, f pawl.RunFilter) error {
	if !e.live {
		return &toldError{fmt.Sprintf("no engine with a socket has %s open, so nothing changes: list it without --watch", c.Dir), api.ErrNoEngine}
	}
	changes := e.Watch(ctx, pawl.WatchFilter{Workflow: f.Workflow, Tenant: f.Tenant, Labels: f.Labels, Roots: f.Roots, Prefix: f.Prefix})
	if c.JSON {
		return ignoreInterrupt(ctx, c.writeChanges(ctx, con, e, f, changes))
	}
	moved, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() { // ends with ctx, as the command does, or with the engine
		for _, err := range changes {
			if err != nil {
				ended <- err
				return
			}
			select {
			case moved <- struct{}{}:
			default: // a list is to come already
			}
		}
		ended <- errLost
	}()
	for again := false; ; again = true {
		select {
		case <-moved: // first when the watch has begun, so that no change is missed
		case err := <-ended:
			return ignoreInterrupt(ctx, err)
		}
		con.beginScreen(again)
		err := passOver(errNo, c.listRuns(ctx, con, e, f))
		if err == nil {
			err = pauseFor(ctx, watchPause)
		}
		if err != nil {
			return ignoreInterrupt(ctx, err)
		}
	}
}

// writeChanges writes the runs, when the watch has begun, and then each that has changed and fits. It writes them all again if changes were lost.
func (c *lsCommand) writeChanges(ctx context.Context, con *console, e *reached, f pawl.RunFilter, changes iter.Seq2[pawl.RunChange, error]) error {
	for change, err := range changes {
		if err == nil && change.Lost {
			err = passOver(errNo, c.listRuns(ctx, con, e, f)) // what cannot be read is named
		} else if err == nil {
			err = c.writeChanged(ctx, con, e, f, &change)
		}
		if err != nil {
			return err
		}
	}
	return errLost
}

// writeChanged writes a run that has changed, if it fits as it is now: it is looked for in a list that has no other.
func (c *lsCommand) writeChanged(ctx context.Context, con *console, e *reached, f pawl.RunFilter, change *pawl.RunChange) error {
	if change.Purged {
		return nil
	}
	f.Prefix, f.Limit, f.Newest = string(change.Run), 0, false
	for run, err := range e.Runs(ctx, f) {
		if err != nil {
			return err
		}
		if run.Run != change.Run {
			continue // its id begins likewise
		}
		places, err := placesOf(ctx, e, &run)
		if errors.Is(err, pawl.ErrRunNotFound) {
			return nil
		}
		if err = new(troubled).note(ctx, con, run.Run, err); err == nil {
			con.writeLine(true, listedRun{run, places})
		}
		return err
	}
	return nil
}

// beginScreen clears the terminal for what takes the place of what is on it. Elsewhere an empty line stands between the two.
func (con *console) beginScreen(again bool) {
	switch {
	case con.Screen:
		fmt.Fprint(con.Out, "\x1b[H\x1b[J")
	case again:
		fmt.Fprintln(con.Out)
	}
}

// pauseFor lets time pass; the error is the cause of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// passOver returns an error, or nil if it is the one that is passed over.
func passOver(known, err error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

// A troubled counts the runs of a command about many that could not be read, and names each of them beside the answer. The zero value has none.
type troubled struct {
	runs   int
	chosen bool // the runs were chosen, not named: one that is purged meanwhile is passed over
}

// note names a run that cannot be read, and returns nil: the command goes on with the others. An error of another kind is returned as it
// is, as it would be the same for all.
func (t *troubled) note(ctx context.Context, con *console, run workflow.RunID, err error) error {
	if t.chosen && errors.Is(err, pawl.ErrRunNotFound) {
		return nil
	}
	ofRun := func(kind error) bool { return errors.Is(err, kind) }
	if !slices.ContainsFunc([]error{pawl.ErrCorrupt, pawl.ErrVersion, pawl.ErrSealed, blob.ErrMissing, blob.ErrDamaged}, ofRun) || ctx.Err() != nil {
		return err
	}
	t.runs++
	fmt.Fprintf(con.Errs, "pawl: %s: %s\n", printableText(string(run)), printableText(errorText(err)))
	return nil
}

// saysNo returns what makes the exit status: the answer is no if a run could not be read.
func (t *troubled) saysNo() error {
	if t.runs > 0 {
		return errNo
	}
	return nil
}

var tokensVerb = verb{
	name:    "threads",
	help:    "List the threads of a run, those that live unless --all or --status says otherwise.",
	example: []string{"pawl threads import-7 --node load --status waiting_for_operator"},
	command: func() command { return new(tokensCommand) },
}

// A tokensCommand lists tokens.
type tokensCommand struct {
	Run    string   `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	Node   string   `placeholder:"NODE" help:"Threads at this node."`
	Status []string `placeholder:"STATUS" help:"Threads in any of these, such as dispatched, retrying, waiting_for_operator, failed."`
	Group  int64    `placeholder:"N" help:"Threads in a branch of this group."`
	All    bool     `help:"Also those that have ended."`
	dirFlag
}

// liveStatuses are those of tokens that can still change.
func liveStatuses() (out []workflow.TokenStatus) {
	for s := range workflow.Completed {
		out = append(out, s)
	}
	return out
}

// runCommand lists the tokens by number.
func (c *tokensCommand) runCommand(ctx context.Context, con *console) error {
	f := pawl.TokenFilter{Node: workflow.NodeID(c.Node), Group: workflow.GroupID(c.Group)}
	if !c.All {
		f.Status = liveStatuses()
	}
	// Statuses that are named win over the default and over --all.
	if c.Status != nil {
		f.Status = nil
	}
	for _, text := range c.Status {
		var s workflow.TokenStatus
		if err := s.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("--status: %w", err)
		}
		f.Status = append(f.Status, s)
	}
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		rows, now := [][]string{{"THREAD", "NODE", "STATUS", "BRANCH", "TRY", "DUE", "FAILURE"}}, con.Now()
		for t, err := range e.Tokens(ctx, workflow.RunID(c.Run), f) {
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, t)
				continue
			}
			rows = append(rows, c.tokenRow(&t, now))
		}
		if c.JSON {
			return nil
		}
		if len(rows) > 1 {
			con.printTable(rows)
		}
		con.printLine("%s", pluralText(len(rows)-1, "thread"))
		con.printSource(e.source)
		return nil
	})
}

// tokenRow returns the cells of a token in the table of pawl threads. A group and a branch are g2:0, the first branch of group 2.
func (f dirFlag) tokenRow(t *pawl.Token, now time.Time) []string {
	row := []string{fmt.Sprintf("t%d", t.ID), string(t.Node), t.Status.String(), "", "", "", ""}
	if t.Executing { // else its task is queued, or its result comes from elsewhere
		row[2] = "running"
		if !t.Since.IsZero() {
			row[2] += " " + max(now.Sub(t.Since), 0).Round(time.Second).String()
		}
		if t.Worker != "" {
			row[2] += " " + t.Worker
		}
	}
	if q := t.Queued; q != nil {
		row[2] = "queued: " + q.For
		if q.Place > 0 {
			row[2] += fmt.Sprintf(" %d/%d", q.Place, q.Of)
		}
		row[2] += " " + max(now.Sub(q.Since), 0).Round(time.Second).String()
	}
	if t.JoinAt != "" {
		row[2] += " at " + string(t.JoinAt)
	}
	if t.Scope.Group != 0 {
		row[3] = fmt.Sprintf("g%d:%d", t.Scope.Group, t.Scope.Branch)
	}
	if t.Attempt > 0 {
		row[4] = fmt.Sprint(t.Attempt)
	}
	row[5] = f.instantText(t.Due, now)
	if t.Failure != nil {
		row[6] = t.Failure.Code
	}
	return row
}

// tokenCells is a token in a few words.
func (f dirFlag) tokenCells(t *pawl.Token, now time.Time) []string {
	out := []string{string(t.Node), fmt.Sprintf("t%d", t.ID), statusText(t.Status)}
	if t.Queued != nil {
		out[2] = "queued"
	}
	if due := f.dueText(t.Due, now); due != "" {
		out = append(out, due)
	}
	if t.Failure != nil {
		out = append(out, t.Failure.Code)
	}
	return out
}
