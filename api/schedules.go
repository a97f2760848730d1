package api

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A ScheduleSet is the body that applies schedules.
type ScheduleSet struct {
	By        string              `json:"by,omitzero"` // who applies them; may be left out where the host says who that is
	Reason    string              `json:"reason"`
	Schedules []schedule.Schedule `json:"schedules"`
}

// A ScheduleChanges says what applying a set has changed or, after a dry run, would change.
type ScheduleChanges struct {
	Applied bool              `json:"applied"` // false: nothing was changed
	Changes []schedule.Change `json:"changes"` // by id
}

// A ScheduleAct is something that an operator does to a schedule: pause, resume, trigger, backfill or delete. In a body, do is
// left out, since the path says it, and From, To and Most are there for a backfill only.
type ScheduleAct struct {
	Do     string    `json:"-"`
	By     string    `json:"by,omitzero"` // who acts; may be left out where the host says who that is
	Reason string    `json:"reason"`
	From   time.Time `json:"from,omitzero"` // the instants of a backfill are later than this
	To     time.Time `json:"to,omitzero"`   // and not later than this
	Most   int       `json:"most,omitzero"` // runs of a backfill at once; 0 is 1
}

// A ScheduleReport is the result of an act on a schedule.
type ScheduleReport struct {
	Schedule string         `json:"schedule"`
	Run      workflow.RunID `json:"run,omitzero"`     // the run that a trigger starts
	Firings  int            `json:"firings,omitzero"` // how many a backfill makes
}

// scheduleActs are the acts on schedules, by the ends of their paths.
var scheduleActs = []string{"pause", "resume", "trigger", "backfill", "delete"}

// scheduleRoutes returns the routes of schedules.
func scheduleRoutes() []route {
	const get, put, post = http.MethodGet, http.MethodPut, http.MethodPost
	out := []route{
		{get, "/v1/schedules", View, []string{"limit", "cursor"}, (*call).listSchedules},
		{put, "/v1/schedules", Act, []string{"prune", "dryRun"}, (*call).applySchedules},
		{get, "/v1/schedules/{schedule}", View, nil, (*call).showSchedule},
		{get, "/v1/schedules/{schedule}/events", View, []string{"since", "until"}, (*call).listScheduleEvents},
	}
	for _, do := range scheduleActs {
		out = append(out, route{post, "/v1/schedules/{schedule}/" + do, Act, nil, func(c *call) error { return c.actOnSchedule(do) }})
	}
	return out
}

type schedulePage struct {
	Schedules []schedule.Standing `json:"schedules"`       // by id
	Cursor    string              `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listSchedules answers how the schedules stand. A cursor is the id of the last one.
func (c *call) listSchedules() error {
	q := c.query()
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	list := c.engine.Schedules().List(c.context(), q.textOf("cursor"))
	if c.acceptsType(typeLines, typeJSON) {
		return c.replyLines(mapList(list, func(s *schedule.Standing) any { return c.hideStanding(s) }))
	}
	page, more, err := readPage(list, limit)
	if err != nil {
		return err
	}
	out := schedulePage{Schedules: page}
	for i := range page {
		page[i] = *c.hideStanding(&page[i])
	}
	if more {
		out.Cursor = page[limit-1].Schedule.ID
	}
	return c.reply(out)
}

// hideStanding leaves out what the caller may not see: the input, whose expressions may have values in them, and texts of errors. The reason
// of an incident is such a text. The pause belongs to the engine, and is replaced.
func (c *call) hideStanding(s *schedule.Standing) *schedule.Standing {
	if c.viewerOf("").seesTexts() {
		return s
	}
	s.Schedule.Input, s.Events = nil, c.hideErrors(s.Events)
	if p := s.Paused; p != nil && p.Incident && p.Reason != "" {
		s.Paused = &schedule.Pause{At: p.At, By: p.By, Incident: true}
		s.Why = strings.ReplaceAll(s.Why, ": "+p.Reason, "")
	}
	return s
}

func (c *call) hideErrors(events []schedule.Event) []schedule.Event {
	if !c.viewerOf("").seesTexts() {
		for i := range events {
			ev := &events[i]
			ev.Error = ""
			if ev.Kind == "paused" && strings.HasPrefix(ev.By, "schedule ") { // the engine did it, for an error
				ev.Reason = ""
			}
		}
	}
	return events
}

// showSchedule answers how one schedule stands.
func (c *call) showSchedule() error {
	s, err := c.engine.Schedules().Get(c.context(), c.r.PathValue("schedule"))
	if err != nil {
		return err
	}
	return c.replyTagged(http.StatusOK, c.hideStanding(&s))
}

type scheduleEvents struct {
	Events []schedule.Event `json:"events"` // the oldest first
}

// listScheduleEvents answers what has become of the firings of a schedule: the engine keeps so few that there is one page.
func (c *call) listScheduleEvents() error {
	q := c.query()
	since, until := q.instant("since"), q.instant("until")
	if q.err != nil {
		return q.err
	}
	events, err := c.engine.Schedules().Events(c.context(), c.r.PathValue("schedule"), since, until)
	if err != nil {
		return err
	}
	return c.reply(scheduleEvents{append([]schedule.Event{}, c.hideErrors(events)...)})
}

// applySchedules makes schedules what the body says.
func (c *call) applySchedules() error {
	q := c.query()
	o := pawl.ApplyOptions{Prune: q.flag("prune"), DryRun: q.flag("dryRun")}
	if q.err != nil {
		return q.err
	}
	text, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	set, err := decodeScheduleSet(text)
	if err != nil {
		return err
	}
	if err := c.signAct(&set.By, set.Reason); err != nil {
		return err
	}
	schedules, err := set.parseSchedules()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), set.By), set.Reason), commitTime)
	defer cancel()
	changes, err := c.engine.Schedules().Apply(ctx, schedules, o)
	if err != nil {
		return unknownIfLate(err)
	}
	return c.reply(ScheduleChanges{!o.DryRun, append([]schedule.Change{}, changes...)})
}

// A rawSet is a ScheduleSet whose schedules are not parsed yet.
type rawSet struct {
	By        string          `json:"by"`
	Reason    string          `json:"reason"`
	Schedules json.RawMessage `json:"schedules"`
}

func decodeScheduleSet(text []byte) (set rawSet, err error) {
	err = decodeObject(text, &set)
	return set, err
}

// parseSchedules reads the schedules as those of a file, so that each problem has its place.
func (s *rawSet) parseSchedules() ([]schedule.Schedule, error) {
	if s.Schedules == nil {
		return nil, invalidf("schedules must be a list")
	}
	return schedule.Parse(slices.Concat([]byte(`{"schedules": `), s.Schedules, []byte("}")))
}

// actOnSchedule does an act to the schedule that the path names.
func (c *call) actOnSchedule(do string) error {
	text, err := c.readBody(smallBody)
	if err != nil {
		return err
	}
	var a ScheduleAct
	if err := decodeObject(text, &a); err != nil {
		return err
	}
	if err := c.signAct(&a.By, a.Reason); err != nil {
		return err
	}
	if do != "backfill" && (!a.From.IsZero() || !a.To.IsZero() || a.Most != 0) {
		return invalidf("%s takes neither from, to nor most", do)
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), a.By), a.Reason), commitTime)
	defer cancel()
	out, err := performOnSchedule(ctx, c.engine.Schedules(), c.r.PathValue("schedule"), do, &a)
	if err != nil {
		return unknownIfLate(err)
	}
	return c.reply(out)
}

// performOnSchedule does an act to a schedule.
func performOnSchedule(ctx context.Context, of pawl.Schedules, id, do string, a *ScheduleAct) (out ScheduleReport, err error) {
	out.Schedule = id
	switch do {
	case "pause":
		err = of.Pause(ctx, id)
	case "resume":
		err = of.Resume(ctx, id)
	case "trigger":
		out.Run, err = of.Trigger(ctx, id)
	case "backfill":
		out.Firings, err = of.Backfill(ctx, id, schedule.Backfill{From: a.From, To: a.To, Most: cmp.Or(a.Most, 1)})
	case "delete":
		err = of.Delete(ctx, id)
	default:
		err = invalidf("nobody can %s a schedule", do)
	}
	return out, err
}

// Schedules lists the schedules with ids above after, and how they stand, as Schedules.List does.
func (c *Client) Schedules(ctx context.Context, after string) iter.Seq2[schedule.Standing, error] {
	return listLines[schedule.Standing](ctx, c, &question{method: http.MethodGet, path: "/v1/schedules", query: textQuery("cursor", after)})
}

// Schedule returns how a schedule stands, as Schedules.Get does.
func (c *Client) Schedule(ctx context.Context, id string) (out schedule.Standing, err error) {
	err = c.ask(ctx, aboutSchedule(id, ""), &out)
	return out, err
}

// ScheduleEvents returns the events of a schedule, as Schedules.Events does.
func (c *Client) ScheduleEvents(ctx context.Context, id string, since, until time.Time) ([]schedule.Event, error) {
	q := aboutSchedule(id, "/events")
	q.query = url.Values{}
	for name, at := range map[string]time.Time{"since": since, "until": until} {
		if !at.IsZero() {
			q.query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	var out scheduleEvents
	err := c.ask(ctx, q, &out)
	return out.Events, err
}

// ApplySchedules creates and changes schedules as set says, and with o.Prune deletes all others, as Schedules.Apply does.
func (c *Client) ApplySchedules(ctx context.Context, set ScheduleSet, o pawl.ApplyOptions) (out ScheduleChanges, err error) {
	q := &question{method: http.MethodPut, path: "/v1/schedules", query: url.Values{}, body: set, acts: !o.DryRun}
	for name, on := range map[string]bool{"prune": o.Prune, "dryRun": o.DryRun} {
		if on {
			q.query.Set(name, "1")
		}
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// ActOnSchedule does an act to a schedule: a.Do is pause, resume, trigger, backfill or delete, like the methods of Schedules.
func (c *Client) ActOnSchedule(ctx context.Context, id string, a ScheduleAct) (out ScheduleReport, err error) {
	q := aboutSchedule(id, "/"+url.PathEscape(a.Do))
	q.method, q.body, q.acts = http.MethodPost, a, true
	err = c.ask(ctx, q, &out)
	return out, err
}

// aboutSchedule asks for a resource of a schedule.
func aboutSchedule(id, resource string) *question {
	return &question{method: http.MethodGet, path: "/v1/schedules/" + url.PathEscape(id) + resource}
}
