package inspector

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of a form that is about all runs, parked tasks or approvals of a filter.
// There may be a million of them, so an act on all goes in steps: each form does it for allTime or to allMost of them, and its page has a
// form for the next step, which the reader sends. Nothing goes on by itself.
const (
	allTime      = 30 * time.Second // how long it goes on with the next one; the page after it goes on from there
	allMost      = 1000             // how many it is done to
	countTime    = 3 * time.Second  // how long those are counted that it would be done to
	shownRefused = 50
)

// allTargets are the runs of a filter that have not ended, or what waits for people in them, to which a form does something.
//
// The state between two steps is in the forms alone: the filter, the cursor and the counts of what was done. The server trusts these
// counts: they affect only what is told in the end. Filter is what the engine gets; for what waits for people only its condition counts.
// query is what the address has, Words says the same to people. Most is to how many of them the reader wants the next step done. Count is
// how many an act would be done to.
//
// Asked, Counted and Shown say what the reader has seen, so that nothing is done to more: see checkCounted.
type allTargets struct {
	Kind      string // allOfRuns, allOfLetters or allOfApprovals
	Filter    pawl.RunFilter
	Cursor    pawl.Target // it was done up to this run or token
	Most      int         // to how many of them, 0 if nobody has said
	Done      struct{ Changed, Left, Refused int }
	Count     int
	Uncounted bool          // there are more
	Asked     time.Time     // when the page was made that asked; zero if none did. Runs that began and tasks that were parked later are not meant
	Counted   int           // that were left to be done when it was made; -1 if nobody has counted all
	Shown     []pawl.Target // all of those, if the page had room for each
	Words     string
	query     url.Values
}

// A formField is a hidden field of a form.
type formField struct{ Name, Value string }

// filterFields are the parameters that choose runs.
//
// They are in links, in hidden fields and in the address to which an act leads back; readRunFilter reads them. A filter that gets another
// parameter must have it here, or an act on all would forget it and be done to more runs than the reader has seen.
var filterFields = []string{"workflow", "status", "prefix", "tenant", "labels", "roots", "where"}

// readAll reads what a form is about, how far it came, and what the steps before this one have done.
//
// An invalid condition is refused here, before anything is counted or done. So are messages by which a reader chooses who sees none: that would
// let them be guessed, and without them the act would be done to more than its page says.
func (p *page) readAll(kind string, values url.Values) (a *allTargets, err error) {
	a = &allTargets{Kind: kind, Counted: -1, query: url.Values{}}
	if a.Cursor, err = a.readCursor(values.Get("cursor")); err != nil {
		return nil, err
	}
	if a.Filter, err = readRunFilter(values); err != nil {
		return nil, err
	}
	if err := acts.CheckWhere(a.Filter.Where); err != nil {
		return nil, fmt.Errorf("%w: %w", errAct, err)
	}
	for _, name := range a.filterNames() {
		if of := values[name]; len(of) > 0 && of[0] != "" {
			a.query[name] = of
		}
	}
	if a.like() != "" && !p.seesTexts() {
		return nil, fmt.Errorf("%w: you may not choose by messages", errForbidden)
	}
	for name, n := range map[string]*int{"most": &a.Most, "counted": &a.Counted, "changed": &a.Done.Changed, "left": &a.Done.Left, "refused": &a.Done.Refused} {
		if text := values.Get(name); text != "" {
			if *n, err = strconv.Atoi(text); err != nil || *n < 0 {
				return nil, fmt.Errorf("%w: %s is %q: it must be a number", errAct, name, text)
			}
		}
	}
	if text := values.Get("asked"); text != "" {
		if a.Asked, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, fmt.Errorf("%w: asked is %q: it must be an instant", errAct, shortText(text, 40))
		}
	}
	if len(values["shown"]) > triedTargets {
		return nil, fmt.Errorf("%w: a page shows %d of them, not %d", errAct, triedTargets, len(values["shown"]))
	}
	for _, text := range values["shown"] {
		if t, ok := targetOf(text); ok {
			a.Shown = append(a.Shown, t)
		}
	}
	a.Words = a.describeFilter()
	return a, nil
}

// Fields returns what a form has to say of the runs.
//
// The template writes them as hidden fields; readAll reads them again. Empty ones are left out, as no parameter means the same.
func (a *allTargets) Fields() (out []formField) {
	for _, name := range a.filterNames() {
		for _, value := range a.query[name] {
			out = append(out, formField{name, value})
		}
	}
	if text := a.Passed(); text != "" {
		out = append(out, formField{"cursor", text})
	}
	for _, n := range []struct {
		name string
		of   int
	}{{"changed", a.Done.Changed}, {"left", a.Done.Left}, {"refused", a.Done.Refused}} {
		if n.of > 0 {
			out = append(out, formField{n.name, strconv.Itoa(n.of)})
		}
	}
	if a.Kind != allOfApprovals && !a.Asked.IsZero() {
		out = append(out, formField{"asked", a.Asked.UTC().Format(time.RFC3339Nano)})
	}
	if a.Counted >= 0 {
		out = append(out, formField{"counted", strconv.Itoa(a.Counted)})
	}
	for _, t := range a.Shown {
		out = append(out, formField{"shown", targetText(t)})
	}
	return out
}

// describeFilter says which those are.
//
// The page begins with it: the reader is to see in words what the form will be done to. That a filter is empty is said plainly.
func (a *allTargets) describeFilter() string {
	if a.Kind != allOfRuns {
		return a.describeWaiting()
	}
	f := &a.Filter
	var parts []string
	add := func(is bool, format string, value any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(f.Workflow != "", "are of the workflow %s", f.Workflow)
	var statuses []string
	for _, status := range f.Status {
		statuses = append(statuses, statusWord(status))
	}
	add(len(statuses) > 0, "are %s", strings.Join(statuses, " or "))
	add(f.Prefix != "", "have an id that begins with %s", f.Prefix)
	add(f.Tenant != "", "are of the tenant %s", f.Tenant)
	add(len(f.Labels) > 0, "have the labels %s", a.query.Get("labels"))
	add(f.Roots, "%s", "are no children")
	add(f.Where != "", "fit the condition %s", f.Where)
	if len(parts) == 0 {
		return "Those are all runs of this engine: they fit a filter that is empty, and have not ended."
	}
	return "Those are the runs that " + strings.Join(parts, ", and ") + ", and have not ended."
}

// allActLinks returns the links to what can be done to all runs of a list.
//
// The links have the filter of the list and not its rows: what fits when the form is sent counts.
func (p *page) allActLinks(q url.Values, f *pawl.RunFilter) (links []actLink) {
	if p.rights&api.Act == 0 {
		return nil
	}
	for _, a := range pageActs() {
		if a.ofAll != allOfRuns || !a.fits(f.Status) {
			continue
		}
		all := url.Values{"do": {a.Name}, "all": {allOfRuns}}
		for _, name := range filterFields {
			if of := q[name]; len(of) > 0 && of[0] != "" {
				all[name] = of
			}
		}
		links = append(links, actLink{a.Title + " all runs…", p.root + "act" + queryOf(all, nil), a.Danger})
	}
	return links
}

// fits reports whether a run that has one of these statuses can take an act; without statuses, a run of any.
func (a *act) fits(statuses []workflow.RunStatus) bool {
	for _, status := range statuses {
		if !status.Final() {
			return true
		}
	}
	return len(statuses) == 0
}

// askAll shows to how many an act would be done, and what would come of it at the first of them, and asks for a
// reason. Nothing is changed.
//
// Counting is a dry run, so that the number is of exactly those that performAll would visit. It is
// bounded by countTime; then the number is a lower bound.
func (s *server) askAll(p *page, f *actForm, wrong error) error {
	if err := p.takeWhere(f.All.Filter.Where); err != nil {
		return err
	}
	a := f.All
	a.Asked, a.Counted, a.Shown = p.now, -1, nil
	report, err := s.countAll(p.r.Context(), p, f, 0)
	if a.Uncounted = errors.Is(err, errMore); err != nil && !a.Uncounted {
		return err
	}
	if a.Count = report.Found; a.Count == 0 && !a.Uncounted {
		return fmt.Errorf("%w: %s", errAct, a.noneChosen())
	}
	if !a.Uncounted {
		a.Counted = a.Count
	}
	if a.Counted == len(report.Targets) {
		a.Shown = report.Targets
	}
	b := p.actBodyOf(f)
	b.Back = p.root + f.All.listAddress()
	status := p.tellWrong(&b, f, wrong)
	if err := s.addEffects(p, f, &b, report.Targets); err != nil {
		return err
	}
	return p.showStatus(status, "act.html", f.act.Title, "", &b)
}

// errMore says that an act on all would be done to some that the reader was not asked about.
var errMore = errors.New("there are more now than this page said, or others: nothing more was done. Look at what it shows now, and send it again")

// countAll counts to how many an act would be done, at most to limit, 0 being all. The error is errMore if countTime is over before all are
// counted; the report has those that were.
func (s *server) countAll(ctx context.Context, p *page, f *actForm, limit int) (pawl.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	chosen := f.All.selectTargets(limit)
	chosen.DryRun = true
	report, err := s.doAll(ctx, p, f.All, chosen, f.act.makeAct(f))
	if err != nil && ctx.Err() != nil {
		err = errMore
	}
	return report, err
}

// checkCounted returns errMore if an act would be done to more than its page has said, or to another than it has shown: what has come to wait
// meanwhile was seen by nobody. That fewer are left is no reason to ask again.
//
// A page shows a few one by one; for many only the number counts, and one may take the place of another that has gone. A step that is for no
// more than the page has said is done however many wait: they are as many as the reader wants.
func (s *server) checkCounted(ctx context.Context, p *page, f *actForm) error {
	a := f.All
	if a.Counted < 0 {
		return nil
	}
	limit := a.Counted + 1
	if 0 < a.Most && a.Most <= a.Counted {
		limit = a.Most
	}
	report, err := s.countAll(ctx, p, f, limit)
	if errors.Is(err, pawl.ErrRunNotFound) { // up to which it was done: the page that tells how far it came says so
		return nil
	}
	if err != nil {
		return err
	}
	others := slices.ContainsFunc(report.Targets, func(t pawl.Target) bool { return !slices.Contains(a.Shown, t) })
	if report.Found > a.Counted || len(a.Shown) > 0 && others {
		return errMore
	}
	if report.Found < limit {
		a.Counted = report.Found
	}
	return nil
}

// An allDoneBody says what came of an act on all of a filter, and goes on with the rest.
//
// Changed, Left and Refused are of all steps together, Refusals of the last one.
type allDoneBody struct {
	All                    *allTargets
	Form                   nextForm
	Past                   string
	Changed, Left, Refused int
	Refusals               []effect
	MoreRefusals           int // of this step
	Error                  string
	Again                  bool // there may be more
	Back                   string
}

// A nextForm is what the next step of an act has to say again.
type nextForm struct {
	Act    string
	Fields []formField
}

// performAll does what a form asks for to all of a filter, for so long, and tells how far it came.
//
// If all is done and nothing was refused it leads back to the list, else a page tells how far it came and offers the next step. An act
// that is under way when allTime is over is finished. some reports whether it may have been done to any in this step.
func (s *server) performAll(ctx context.Context, p *page, f *actForm) (some bool, _ error) {
	a := f.All
	limit := allMost
	if a.Most > 0 {
		limit = min(a.Most, allMost)
	}
	if a.Counted > 0 {
		limit = min(limit, a.Counted)
	}
	f.nameSignal()
	until, cancel := context.WithTimeout(ctx, allTime)
	defer cancel()
	var report pawl.Report
	var err error
	if a.Counted != 0 { // 0: none is left
		report, err = s.doAll(until, p, a, a.selectTargets(limit), f.act.makeAct(f))
	}
	timeIsUp := until.Err() != nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrUnknown)
	// With an error and no cursor nothing was passed: the next step begins where this one did.
	if report.Cursor.Run != "" || err == nil {
		a.Cursor = report.Cursor
	}
	if a.Counted >= 0 {
		a.Counted = max(a.Counted-report.Found, 0)
	}
	refused := report.Found - report.Changed - report.Left
	a.Done.Changed, a.Done.Left, a.Done.Refused = a.Done.Changed+report.Changed, a.Done.Left+report.Left, a.Done.Refused+refused
	// Everything is done, and nothing has to be told but that.
	if err == nil && a.Cursor.Run == "" && a.Done.Refused == 0 && a.Done.Changed > 0 {
		return true, p.tellAfterwards(f, a.Done.Changed)
	}
	b := allDoneBody{
		All: a, Form: nextForm{f.act.Name, f.repeated()}, Past: f.act.Past, Changed: a.Done.Changed, Left: a.Done.Left, Refused: a.Done.Refused,
		Back: p.root + a.listAddress(), Again: err != nil || a.Cursor.Run != "", MoreRefusals: max(0, refused-shownRefused),
	}
	some = report.Changed > 0 || isUncertain(err) || slices.ContainsFunc(report.Refused, func(one pawl.Refusal) bool { return isUncertain(one.Err) })
	// The report has the first refusals of this step; how many there were at all it counts.
	for _, one := range report.Refused[:min(len(report.Refused), shownRefused)] {
		b.Refusals = append(b.Refusals, effect{Run: one.Run, Token: one.Token, Href: p.targetLink(pawl.Target{Run: one.Run, Token: one.Token}), Refused: p.refusalText(one.Err)})
	}
	status := http.StatusOK
	if errors.Is(err, pawl.ErrRunNotFound) { // it would not be found the next time either
		b.Error, b.Again, status = fmt.Sprintf("the run %s, up to which it was done, was purged meanwhile: choose them anew", a.Cursor.Run), false, http.StatusConflict
	} else if err != nil && !timeIsUp {
		b.Error, status = p.refusalText(err), http.StatusConflict
	} else if refused > 0 {
		status = http.StatusConflict
	}
	return some, p.showStatus(status, "actedall.html", f.act.Title, "", b)
}

// nameSignal gives a signal an id, that of its form, with which all steps send it. So a run gets it once, even if nobody knows whether it has
// got it already, or the process that knew the form has ended.
//
// The engine takes a signal with an id that a run has had already for the same one, and delivers it once.
func (f *actForm) nameSignal() {
	if f.act.options == "signal" && f.Sender == "" {
		f.Sender = "page-" + cmp.Or(f.sent.Get("once"), rand.Text())
	}
}

// repeated returns the fields of a form that its next step has again.
//
// They go with Fields: together the next step has the whole form, and is the same act for the same reason.
func (f *actForm) repeated() (out []formField) {
	// readForm reads the fields under these names.
	for _, field := range []formField{{"by", f.By}, {"reason", f.Reason}, {"name", f.Name}, {"id", f.Sender}, {"value", f.Text}, {"input", f.Input}} {
		if field.Value != "" {
			out = append(out, field)
		}
	}
	return out
}
