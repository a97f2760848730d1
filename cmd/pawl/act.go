package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/workflow"
)

// An actFlag is embedded in the commands that change runs. Reason is required by kong as it is by the API, so that the journal says why an operator
// has intervened. Offline is a consent: without it nothing is committed in a directory whose program is not running, where nobody would see what
// comes of it.
type actFlag struct {
	By      string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason  string `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	DryRun  bool   `help:"Say what would come of it. Nothing is changed."`
	Offline bool   `help:"If no engine has the directory open, commit this now, and send nothing: what comes of it begins when your program opens the directory, and deadlines count from now."`
	dirFlag
}

// A bulkFlag is embedded in the commands that change several things at once.
type bulkFlag struct {
	Yes bool `short:"y" help:"Do not ask, however many it is done to."`
}

// errOffline says that an act needs an engine.
var errOffline = errors.New("start your program, or --offline commits it now and sends nothing")

// withActor does something with an engine that may be changed. A dry run is possible everywhere, on files of runs too: for that the client of an
// exhibit, which may only read, is replaced by one with all rights, as trials change copies alone.
func (f *actFlag) withActor(ctx context.Context, con *console, do func(*reached) error) error {
	f.By = userName(f.By)
	return f.withEngine(ctx, con, func(e *reached) error {
		switch {
		case e.fixed && !f.DryRun:
			return errExhibit
		case e.fixed:
			e.Client = api.NewClient("http://localhost", &http.Client{Transport: e.carry}) // it is all tried on copies
		case !e.live && !f.Offline && !f.DryRun:
			return fmt.Errorf("no engine with a socket has %s open: %w", f.Dir, errOffline)
		}
		return do(e)
	})
}

// userName returns who acts: the user of this process, if nobody is named.
func userName(by string) string {
	u, err := user.Current()
	return cmp.Or(by, userText(u, err))
}

// userText returns the name of a user, or its number where the system has no name for it, as in many containers.
func userText(u *user.User, err error) string {
	if err != nil || u.Username == "" {
		return fmt.Sprintf("uid %d", os.Getuid())
	}
	return u.Username
}

// A deed is an act and the run that it is done to.
type deed struct {
	run  workflow.RunID
	act  pawl.Act
	said string // what is said when it is done, as "is cancelled"
}

// saidOf returns what is said of a deed that has left its run in a status: by the end of threads at some nodes the run may have ended.
func (d *deed) saidOf(status workflow.RunStatus) string {
	_, ofNodes := d.act.(pawl.CancelNodes)
	switch {
	case ofNodes && status == workflow.RunCompleted:
		return "is completed, as nothing was left at other nodes"
	case ofNodes && status.Final():
		return fmt.Sprintf("is %s without what was there", status)
	}
	return d.said
}

// endsAll reports whether all runs would meet an error, as far as that is known.
func endsAll(err error) bool {
	ofOne := errors.Is(err, &api.Error{Code: refusal.CodeInternal}) || errors.Is(err, &api.Error{Code: refusal.CodeTimeout})
	return statusOf(err) == exitNoEngine && !ofOne
}

// doAll does deeds. The error of a single deed is returned as it is; of several deeds, each error is printed, and the returned
// one counts them. The deeds are independent: one that is refused does not stop the others, and what was done is not undone. An
// interrupt does stop them, and an error that all would meet, such as a full disk, with how many were done. Unknown outcomes
// weigh more than refusals in the error, since the user has to look at those runs.
func (f *actFlag) doAll(ctx context.Context, con *console, e *reached, deeds ...deed) error {
	var refused, unknown []error
	table := &deedTable{many: f.DryRun && !f.JSON && len(deeds) > 1}
	for i, d := range deeds {
		err := f.doDeed(ctx, con, e, d, table)
		switch {
		case err == nil:
			continue
		case len(deeds) == 1:
			return err
		case ctx.Err() != nil || endsAll(err):
			text := fmt.Sprintf("%s: stopped after %d of %d: %s", d.run, i-len(refused)-len(unknown), len(deeds), errorText(err))
			if unknown != nil {
				return &toldError{fmt.Sprintf("%s; of %d nobody knows", text, len(unknown)), unknown[0]}
			}
			return &toldError{text, err}
		}
		fmt.Fprintf(con.Errs, "pawl: %s: %s\n", printableText(string(d.run)), errorText(err))
		if statusOf(err) == exitUnknown {
			unknown = append(unknown, err)
		} else {
			refused = append(refused, err)
		}
	}
	if table.many {
		table.print(con)
		con.printProse("nothing is changed; it would be done to %d of %d", len(deeds)-len(refused)-len(unknown), len(deeds))
	}
	if !f.JSON {
		con.printSource(f.sourceText(e))
	}
	switch {
	case unknown != nil:
		return fmt.Errorf("of %d of %d nobody knows, %d were refused: %w", len(unknown), len(deeds), len(refused), unknown[0])
	case refused != nil:
		err := fmt.Errorf("%d of %d were refused: %w", len(refused), len(deeds), refused[0])
		if statusOf(err) == exitUnusable {
			return &refusedError{err} // the command line was right, and the list tells why
		}
		return err
	}
	return nil
}

// sourceText says who has acted and, if nothing goes on there, what that means.
func (f *actFlag) sourceText(e *reached) string {
	if e.live || f.DryRun {
		return e.source
	}
	return e.source + ": what comes of it begins when your program opens " + f.Dir
}

// A doneDeed is what is told of a deed that is done, or tried. Where several tokens are acted on, a
// line of JSON without its token could not be told from the next one.
type doneDeed struct {
	api.ActReport
	Token workflow.TokenID `json:"token,omitzero"` // to which it was done, where that was chosen by
	Node  workflow.NodeID  `json:"node,omitzero"`
	Vote  string           `json:"vote,omitzero"` // yes or no, the answer that a dry run has tried
}

// A deedTable has a row for each deed of a dry run of many: one alone is told decision by decision.
type deedTable struct {
	many bool
	rows [][]string
}

// addDeed adds what would come of a deed: what would be said of it, what it begins, and how the run would then be.
func (t *deedTable) addDeed(d deed, f *api.Future) {
	if len(f.Steps) == 0 {
		t.rows = append(t.rows, []string{string(d.run), "nothing would change", f.Outcome.Status.String()})
		return
	}
	t.rows = append(t.rows, []string{string(d.run), d.saidOf(f.Outcome.Status), f.Outcome.Status.String()})
}

// print writes the table, and how many runs would then be how.
func (t *deedTable) print(con *console) {
	if len(t.rows) == 0 {
		return
	}
	con.printTable(append([][]string{{"RUN", "WHAT", "THEN"}}, t.rows...))
	counts := map[string]int{}
	for _, row := range t.rows {
		counts[row[2]]++
	}
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s %s", countText(counts[status]), status))
	}
	con.printProse("then: %s", strings.Join(texts, ", "))
}

func (f *actFlag) doDeed(ctx context.Context, con *console, e *reached, d deed, table *deedTable) error {
	do := e.Do
	if f.DryRun {
		do = e.DryRun
	} else {
		d.act = acts.Once(d.act, rand.Text()) // however often the request is sent, it counts once
	}
	done, err := do(ctx, d.run, api.Operation{Act: d.act, By: f.By, Reason: f.Reason})
	told := doneDeed{ActReport: done}
	if t, ok := acts.TargetOf(d.act); ok {
		told.Token, told.Node = t.Token, t.Node
	}
	if v, ok := d.act.(pawl.Vote); ok && f.DryRun {
		told.Vote = answerText(v.Approved)
	}
	switch {
	case err != nil:
		return err
	case f.JSON:
		con.writeLine(true, told)
	case table.many:
		table.addDeed(d, done.Future)
	case f.DryRun:
		con.printFuture(d.run, done.Future)
	default:
		con.printLine("%s %s", d.run, e.tellDeed(ctx, &d))
	}
	return nil
}

// tellDeed returns what is said of a deed that is done. Only where that depends on what has become of the run it asks for that.
func (e *reached) tellDeed(ctx context.Context, d *deed) string {
	if _, ok := d.act.(pawl.CancelNodes); ok {
		if s, err := e.Summary(ctx, d.run); err == nil { // it is done, whatever a look at it says
			return d.saidOf(s.Status)
		}
	}
	return d.said
}

// printDryRun writes what would come of the start or the fork of a run.
func (f *actFlag) printDryRun(con *console, e *reached, run workflow.RunID, done api.DryRunReport, err error) error {
	switch {
	case err != nil:
		return err
	case f.JSON:
		con.writeLine(true, done)
		return nil
	}
	con.printFuture(run, done.Future)
	con.printSource(f.sourceText(e))
	return nil
}

// printFuture writes what would become of a run. The message of each record is one line, and its decisions are a line each.
func (con *console) printFuture(run workflow.RunID, f *api.Future) {
	if len(f.Steps) == 0 {
		con.printLine("nothing would change: %s is %s", run, f.Outcome.Status)
		return
	}
	con.printLine("nothing is changed; %s would decide", run)
	for _, s := range f.Steps {
		con.printLine("  %s", s.Record.Message)
		for _, d := range s.Record.Decisions {
			con.printLine("    %s", d)
		}
	}
	con.printLine("  and then it would be %s", f.Outcome.Status)
}

// errUnwilling says that the user does not want it.
var errUnwilling = errors.New("nothing is changed")

// confirmChange asks before something is changed that was chosen, however many those are. A user who only wants to know what
// would come of it is not asked.
func (f *actFlag) confirmChange(ctx context.Context, con *console, b *bulkFlag, question string) error {
	if f.DryRun {
		return nil
	}
	return b.confirm(ctx, con, question)
}

// confirm asks before something is done to many. Everything but y and yes means no, an end of the
// input as well: a script that forgets --yes changes nothing.
func (f *bulkFlag) confirm(ctx context.Context, con *console, question string) error {
	if f.Yes {
		return nil
	}
	fmt.Fprintf(con.Errs, "%s? [y/N] ", printableText(question))
	answer, err := con.readLine(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(con.Errs)
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		return nil
	}
	fmt.Fprintln(con.Errs, errUnwilling)
	return errNo
}

// targetIn returns the token of a run that a word of the command line names: a node or, where the run has none of that name, a token, as t5 or 5.
// Only a word that could be a token costs a question to the engine. A node of that name wins, as it is what the author of the definition has written.
func (e *reached) targetIn(ctx context.Context, run, word string) (pawl.Target, error) {
	token := parseToken(word)
	if token == 0 {
		return pawl.Target{Node: workflow.NodeID(word)}, nil
	}
	d, _, err := e.Definition(ctx, workflow.RunID(run))
	if err != nil {
		return pawl.Target{}, err
	}
	if slices.ContainsFunc(d.Nodes, func(node workflow.Node) bool { return string(node.ID) == word }) {
		return pawl.Target{Node: workflow.NodeID(word)}, nil
	}
	return pawl.Target{Token: token}, nil
}

// parseToken returns the token that a word names, as t5 or 5; 0 if it cannot be one.
func parseToken(word string) workflow.TokenID {
	n, err := strconv.ParseInt(strings.TrimPrefix(word, "t"), 10, 64)
	if err != nil {
		return 0
	}
	return workflow.TokenID(max(n, 0))
}

// jsonText returns a flag with a value of JSON; nil if it is empty. The text goes on as it is:
// numbers are not read as float64 here, so a large one keeps its digits.
func jsonText(flag, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%s: %q is not JSON: a text stands in quotes, as '\"yes\"'", flag, text)
	}
	return json.RawMessage(text), nil
}

// A runsFlag is embedded in the commands that are done to whole runs.
type runsFlag struct {
	Run []string `arg:"" optional:"" help:"The ids of the runs; none if they are chosen."`
	filterFlag
	bulkFlag
}

// chooseRuns returns the runs that are named or, of those that have not ended, chosen. The ids are all read before the first run is changed: the
// question before names their number, and a run that ends because its parent was cancelled does not shift the list.
func (f *runsFlag) chooseRuns(ctx context.Context, e *reached) (ids []workflow.RunID, err error) {
	if (len(f.Run) > 0) != f.isEmpty() {
		return nil, errNamedAndChosen
	}
	for _, id := range f.Run {
		ids = append(ids, workflow.RunID(id))
	}
	if ids != nil {
		return ids, nil
	}
	return f.chosenRuns(ctx, e)
}

var errNamedAndChosen = errors.New("name runs, or choose them by --workflow, --status, --tenant, --prefix, --label, --where or --roots, not both")

// splitRun returns the id of a run and the word behind it or, where runs are chosen, the word alone, which stands first: what the
// command cannot do without.
func (f *filterFlag) splitRun(first, second, what string) (run workflow.RunID, word string, err error) {
	switch chosen := !f.isEmpty(); {
	case !chosen && second == "":
		return "", "", fmt.Errorf("%s is missing: it stands behind the id of a run, or alone where flags as --workflow choose runs", what)
	case chosen && second != "":
		return "", "", errNamedAndChosen
	case chosen:
		return "", first, nil
	}
	return workflow.RunID(first), second, nil
}

// oneOrChosen returns the run that is named or, if none is, the chosen ones. It asks before something is done to chosen ones.
func (f *actFlag) oneOrChosen(ctx context.Context, con *console, e *reached, run workflow.RunID, of *filterFlag, b *bulkFlag, what string) ([]workflow.RunID, error) {
	if run != "" {
		return []workflow.RunID{run}, nil
	}
	ids, err := of.chosenRuns(ctx, e)
	if err == nil {
		err = f.confirmChange(ctx, con, b, what+" "+pluralText(len(ids), "run"))
	}
	return ids, err
}

// chosenRuns returns those of the runs that have not ended that the flags choose.
func (f *filterFlag) chosenRuns(ctx context.Context, e *reached) (ids []workflow.RunID, err error) {
	filter, err := f.runFilter()
	if err != nil {
		return nil, err
	}
	if filter.Status == nil {
		filter.Status = []workflow.RunStatus{workflow.RunRunning, workflow.RunPaused, workflow.RunSuspended}
	}
	for run, err := range e.Runs(ctx, filter) {
		if err == nil && run.Trouble != "" { // nobody knows whether it fits
			err = &refusedError{fmt.Errorf("run %q: %w: name the others", string(run.Run), &toldError{run.Trouble, pawl.ErrCorrupt})}
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, run.Run)
	}
	if len(ids) == 0 {
		return nil, &toldError{"no run that has not ended is chosen", pawl.ErrRunNotFound}
	}
	return ids, nil
}

var cancelVerb = verb{
	name:    "cancel",
	help:    "End runs as cancelled, or what is at some of their nodes.",
	example: []string{"pawl cancel order-42 -m duplicate", "pawl cancel order-42 --node refund -m paid", "pawl cancel --tenant acme -m left --yes"},
	command: func() command { return new(cancelCommand) },
}

var pauseVerb = verb{
	name:    "pause",
	help:    "Hold back what runs would dispatch; time passes, and results, signals and votes are taken.",
	example: []string{"pawl pause --workflow import -m maintenance"},
	command: func() command { return &runsCommand{deed: deed{act: pawl.Pause{}, said: "is paused"}} },
}

var resumeVerb = verb{
	name:    "resume",
	help:    "Let runs go on that are paused or suspended.",
	example: []string{"pawl resume order-42 -m repaired"},
	command: func() command { return &runsCommand{deed: deed{act: pawl.Resume{}, said: "goes on"}} },
}

// A cancelCommand ends runs, or the tokens at some nodes.
type cancelCommand struct {
	Node []string `placeholder:"NODE" help:"End what is at this node alone: the run goes on with what is at others, as after a branch that ended by choice. A branch that has arrived is at the node that its join leads to. Of several, at each."`
	runsFlag
	actFlag
}

// runCommand cancels one run after the other. With --node the run itself goes on, so that is another act; all the rest, the choice of runs, the
// question and the report, is that of runsCommand.
func (c *cancelCommand) runCommand(ctx context.Context, con *console) error {
	of := runsCommand{deed{act: pawl.Cancel{}, said: "is cancelled"}, c.runsFlag, c.actFlag}
	if len(c.Node) > 0 {
		var act pawl.CancelNodes
		for _, node := range c.Node {
			act.Nodes = append(act.Nodes, workflow.NodeID(node))
		}
		of.deed = deed{act: act, said: "goes on without what was at " + strings.Join(c.Node, ", ")}
	}
	return of.runCommand(ctx, con)
}

// A runsCommand does something to whole runs. pause, resume and cancel are values of it, which differ in the act and in what is said when it is done.
type runsCommand struct {
	deed // to each run
	runsFlag
	actFlag
}

// runCommand does it to one run after the other. Runs that are named are not asked about: the user
// has written each of them. Runs that are chosen are asked about, with their number.
func (c *runsCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.chooseRuns(ctx, e)
		if err == nil && len(c.Run) == 0 {
			err = c.confirmChange(ctx, con, &c.bulkFlag, acts.Of(c.act).Name+" "+pluralText(len(ids), "run"))
		}
		if err != nil {
			return err
		}
		var deeds []deed
		for _, id := range ids {
			deeds = append(deeds, deed{id, c.act, c.said})
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}

// A verb is one thing that pawl can do. Each has a file of its own, and a line in the table of verbs. command makes a new value for each parse, as
// kong writes into it. The help and the completion are made of these fields.
type verb struct {
	name    string
	help    string   // one sentence
	example []string // lines as they are typed, of a use that is common
	hidden  bool     // from help and completion
	working string   // what a terminal is told of one that takes more than a second; none if it says that itself
	command func() command
}

// A command does what its fields, which are its arguments and flags, say. The answer goes to con.Out, remarks about it go to con.Errs. The error
// makes the exit status and is printed, see statusOf; errNo is not printed.
type command interface {
	runCommand(ctx context.Context, con *console) error
}

// A verbGroup is a section of the help.
type verbGroup struct {
	title string
	verbs []verb
	looks bool // they change nothing
}

// verbs are those of all groups, in the order of the help.
func verbs() (out []verb) {
	for _, g := range verbGroups() {
		out = append(out, g.verbs...)
	}
	return out
}

func verbGroups() []verbGroup {
	return []verbGroup{
		{"Definitions", []verb{checkVerb, testVerb, graphVerb, runVerb, publishVerb, genVerb}, false},
		{"Look at runs", []verb{lsVerb, showVerb, waitVerb, inboxVerb, eventsVerb, journalVerb, tokensVerb, dataVerb, blobVerb, revisionsVerb, statsVerb, duVerb, sqlVerb, serveVerb}, true},
		{"Change runs", []verb{startVerb, putVerb, signalVerb, voteVerb, addVerb, closeVerb, raiseVerb, retryVerb, skipVerb, pauseVerb, resumeVerb, cancelVerb, patchVerb, forkVerb}, false},
		{"Start runs on time", []verb{scheduleVerb}, false},
		{"Explain runs", []verb{whyVerb, simulateVerb, stepVerb, traceVerb, diffVerb, replayVerb, coverageVerb}, true},
		{"Keep directories", []verb{exportVerb, importVerb, archiveVerb, purgeVerb, backupVerb, restoreVerb, verifyVerb, repairVerb, recoverVerb, workerVerb}, false},
		{"This command", []verb{completionVerb, completeVerb, versionVerb}, false},
	}
}

// onlyLooks reports whether a verb changes nothing.
func onlyLooks(name string) bool {
	for _, g := range verbGroups() {
		if g.looks && slices.ContainsFunc(g.verbs, func(v verb) bool { return v.name == name }) {
			return true
		}
	}
	return false
}

// A keyFlag is embedded in the commands that read values, which may be sealed.
type keyFlag struct {
	KeyFile string `placeholder:"FILE" help:"The keys of sealed values, a line each: an id, and 32 bytes in base64. Only its owner may read it."`
}

// codec returns what opens sealed values, nil without a file.
func (f keyFlag) codec() (pawl.Codec, error) {
	if f.KeyFile == "" {
		return nil, nil
	}
	return aesgcm.ReadKeyFile(f.KeyFile)
}

// A jsonFlag is embedded in the commands that can write for programs.
type jsonFlag struct {
	JSON bool `name:"json" help:"Write JSON, one object a line."`
}
