package inspector

import (
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
	"github.com/pawl-run/pawl/internal/scheduling"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A scheduleAct is something that a reader can do to a schedule.
type scheduleAct struct {
	name, title, past string
	danger            bool
}

// scheduleActs are all of them, in the order of their links.
var scheduleActs = []scheduleAct{
	{"trigger", "Start a run now", "the run begins", false}, {"pause", "Pause schedule", "paused", false}, {"resume", "Resume schedule", "resumed", false},
	{"backfill", "Backfill runs", "the backfill begins", false}, {"delete", "Delete schedule", "deleted", true},
}

// A scheduleForm is what a reader has filled in. From and To are on the clock of the schedule.
type scheduleForm struct {
	act          scheduleAct
	ID           string
	By, Reason   string
	From, To     string
	Most         string
	backfill     schedule.Backfill
	wrong        error // of From, To and Most
	sent, chosen bool  // by POST; From and To are there
}

// A scheduleActBody is the page that asks whether to do something to a schedule.
type scheduleActBody struct {
	Act, Title string
	Danger     bool
	ID, Href   string
	Form       *scheduleForm
	Zone       string
	AskBy      bool
	Error      string

	// The effect, which is not there yet.
	Refused  string
	Lines    []string
	Instants []string // on the clock of the schedule
	More     int
	Running  []runLinkTo
}

// serveScheduleAct asks whether to do something to a schedule, and does it: a GET shows what would come of it, and a POST of the same
// fields does it.
func (s *server) serveScheduleAct(p *page) error {
	if p.rights&api.Act == 0 {
		return errForbidden
	}
	values := p.r.URL.Query()
	switch p.r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		load := s.bounds.Bodies.Load(p.who)
		defer load.Leave()
		var err error
		if values, err = p.parseForm(load.Reader(p.r.Body), maxThemeForm); err != nil {
			return err
		}
	default:
		p.w.Header().Set("Allow", "GET, HEAD, POST")
		return errMethod
	}
	i := slices.IndexFunc(scheduleActs, func(a scheduleAct) bool { return a.name == values.Get("do") })
	if i < 0 {
		return errNoPage
	}
	var f *scheduleForm
	var st schedule.Standing
	var events []schedule.Event
	read := func() (err error) {
		if st, events, err = s.readSchedule(p, values.Get("id")); err == nil {
			f = p.readScheduleForm(scheduleActs[i], values, &st)
		}
		return err
	}
	var wrong error
	if p.r.Method == http.MethodPost {
		// A form that has deleted its schedule is answered though there is no schedule any more.
		check := func() error {
			if err := read(); err != nil {
				return err
			}
			return f.findMissing()
		}
		wrong = p.performOnce(values, check, func() (bool, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), formTime)
			defer cancel()
			if err := f.actOn(pawl.Because(pawl.As(ctx, f.By), f.Reason), s.engine.Schedules()); err != nil {
				return true, s.askScheduleAct(p, f, &st, events, err)
			}
			return true, p.tellScheduleAct(f)
		})
		if wrong == nil {
			return nil
		}
	}
	if f == nil {
		if err := read(); err != nil {
			return err
		}
	}
	return s.askScheduleAct(p, f, &st, events, wrong)
}

// readScheduleForm reads a form. Instants are on the clock of the schedule.
func (p *page) readScheduleForm(a scheduleAct, values url.Values, st *schedule.Standing) *scheduleForm {
	f := &scheduleForm{
		act: a, ID: st.Schedule.ID, By: p.who, Reason: strings.TrimSpace(values.Get("reason")), sent: p.r.Method == http.MethodPost,
		From: values.Get("from"), To: values.Get("to"), Most: values.Get("most"),
	}
	if p.who == "" {
		f.By = strings.TrimSpace(values.Get("by"))
	}
	if f.Most == "" {
		f.Most = "1"
	}
	if f.chosen = f.From != "" && f.To != ""; a.name != "backfill" || !f.chosen {
		return f
	}
	zone := zoneOf(&st.Schedule)
	var err error
	for text, to := range map[*string]*time.Time{&f.From: &f.backfill.From, &f.To: &f.backfill.To} {
		if *to, err = time.ParseInLocation("2006-01-02T15:04", *text, zone); err != nil {
			f.wrong = fmt.Errorf("%w: %q is not a time such as 2026-11-28T00:00", errAct, shortText(*text, 40))
		}
	}
	if f.backfill.Most, err = strconv.Atoi(f.Most); err != nil {
		f.wrong = fmt.Errorf("%w: %q is not a number of runs", errAct, shortText(f.Most, 40))
	}
	return f
}

// findMissing says what the form lacks for its act.
func (f *scheduleForm) findMissing() error {
	switch {
	case f.wrong != nil:
		return f.wrong
	case f.act.name == "backfill" && !f.chosen:
		return fmt.Errorf("%w: say from when to when", errAct)
	case f.By == "":
		return fmt.Errorf("%w: say who you are", errAct)
	case f.Reason == "":
		return fmt.Errorf("%w: say why", errAct)
	}
	return nil
}

// actOn does what a form asks for.
func (f *scheduleForm) actOn(ctx context.Context, of pawl.Schedules) (err error) {
	switch f.act.name {
	case "pause":
		return of.Pause(ctx, f.ID)
	case "resume":
		return of.Resume(ctx, f.ID)
	case "trigger":
		_, err = of.Trigger(ctx, f.ID)
	case "backfill":
		_, err = of.Backfill(ctx, f.ID, f.backfill)
	case "delete":
		return of.Delete(ctx, f.ID)
	}
	return err
}

// tellScheduleAct leads to the page of the schedule, or of all if it is gone, which says that it is done.
func (p *page) tellScheduleAct(f *scheduleForm) error {
	name := rand.Text()
	address := "schedule" + queryOf(nil, []string{"id", f.ID, "told", name})
	if f.act.name == "delete" {
		address = "schedules" + queryOf(nil, []string{"told", name})
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	p.s.told.keepValue(name, toldText{placeOf(u), "It is done: " + f.act.past + "."})
	return p.goTo(address)
}

// askScheduleAct shows what would come of an act. wrong is why the same form was not done just now, nil if it was not sent yet.
func (s *server) askScheduleAct(p *page, f *scheduleForm, st *schedule.Standing, events []schedule.Event, wrong error) error {
	b := scheduleActBody{
		Act: f.act.name, Title: f.act.title, Danger: f.act.danger, ID: f.ID, Href: p.scheduleLink(f.ID), Form: f,
		Zone: st.Schedule.Timezone, AskBy: p.who == "",
	}
	status := http.StatusOK
	if wrong == nil {
		wrong = f.wrong
	} else if status = pawl.HTTPStatus(wrong); errors.Is(wrong, errSentBefore) {
		status = http.StatusConflict
	} else if status == http.StatusInternalServerError {
		status = http.StatusBadRequest
	}
	if wrong != nil {
		b.Error = strings.TrimPrefix(p.errorAt(wrong), errAct.Error()+": ")
	}
	table, err := schedule.Compile(&st.Schedule)
	if err != nil {
		return err
	}
	v := preview{b: &b, p: p, st: st, events: events, table: table, zone: zoneOf(&st.Schedule)}
	v.fillEffect(f)
	return p.showStatus(status, "schedule_act.html", f.act.title, "schedules", b)
}

// A preview finds out what would come of an act on a schedule.
type preview struct {
	b      *scheduleActBody
	p      *page
	st     *schedule.Standing
	events []schedule.Event
	table  *schedule.Timetable
	zone   *time.Location
}

func (v *preview) addLine(format string, args ...any) {
	v.b.Lines = append(v.b.Lines, fmt.Sprintf(format, args...))
}

// fillEffect says what would come of the act of a form.
func (v *preview) fillEffect(f *scheduleForm) {
	switch f.act.name {
	case "pause":
		v.addLine("It fires no more of itself until it is resumed. The next firings, which would not be:")
		v.addInstants(v.st.Next)
		v.addRunning()
	case "resume":
		v.fillResume()
	case "trigger":
		v.fillTrigger()
	case "backfill":
		if f.chosen && f.wrong == nil {
			v.fillBackfill(f.backfill)
		}
	case "delete":
		v.addLine("The engine forgets it, and what has become of its firings. The runs that it has started stay.")
		if n := len(v.st.Backfills); n > 0 {
			v.addLine("Of its backfills, %d are not over: they end.", n)
		}
		v.addRunning()
	}
}

func (v *preview) addInstants(firings []schedule.Firing) {
	for _, at := range firings {
		v.b.Instants = append(v.b.Instants, at.At.In(v.zone).Format(clockDay))
	}
}

// addRunning says that runs go on.
func (v *preview) addRunning() {
	if v.b.Running = v.p.linksTo(v.st.Running); len(v.b.Running) > 0 {
		v.addLine("Runs that go on:")
	}
}

func (v *preview) fillResume() {
	if v.st.Paused == nil {
		v.addLine("It is not paused: nothing would change.")
		return
	}
	n := 0
	for f := range v.table.Between(v.st.Paused.At, v.p.now) {
		if f.Left == "" {
			n++
		}
		if n == countedMarks {
			break
		}
	}
	if n > 0 && v.st.Schedule.After == 0 {
		v.addLine("Instants that came while it was paused: %s. They are skipped; a backfill makes up for them.", countText(n))
	}
	v.addLine("It fires again, next:")
	v.addInstants(v.st.Next)
}

// fillTrigger says what the overlap makes of a run that is to begin now.
func (v *preview) fillTrigger() {
	var blocking []workflow.RunID
	for _, run := range v.st.Running {
		if !slices.ContainsFunc(v.events, func(ev schedule.Event) bool { return ev.Run == run && ev.Cause == "backfill" }) {
			blocking = append(blocking, run)
		}
	}
	v.addLine("A run of %s begins now, besides those on time.", workflowText(v.st.Schedule.Workflow))
	if len(blocking) == 0 {
		return
	}
	v.b.Running = v.p.linksTo(blocking)
	switch v.st.Schedule.Overlap {
	case schedule.OverlapSkip:
		v.b.Lines = nil
		v.b.Refused = "a run of the schedule is not over, and its overlap is skip"
	case schedule.OverlapBuffer:
		v.addLine("It waits until this run has ended, since its overlap is buffer:")
	case schedule.OverlapCancel:
		v.addLine("This run is cancelled first, since its overlap is cancel:")
	case schedule.OverlapAllow:
		v.addLine("It runs beside these:")
	}
}

// fillBackfill counts the instants of a backfill.
func (v *preview) fillBackfill(b schedule.Backfill) {
	left, had, err := scheduling.InstantsLeft(&v.st.Schedule, v.events, b, v.p.now)
	if err != nil {
		v.b.Refused = strings.TrimPrefix(err.Error(), pawl.ErrInvalid.Error()+": ")
		return
	}
	n := len(left)
	v.addInstants(left[:min(n, shownFirings)])
	v.b.More = max(n-shownFirings, 0)
	if had > 0 {
		v.addLine("Instants that have had a run already: %s. They fire no second time.", groupDigits(had))
	}
	switch n {
	case 0:
		v.addLine("No firing is left to be made up for.")
	case 1:
		v.addLine("One run begins, with this instant:")
	default:
		v.addLine("%s runs begin, at most %d at once, with these instants:", groupDigits(n), b.Most)
	}
}
