package inspector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/schedule"
)

const timetable = `
schedules:
  - {id: nightly <b>, workflow: {name: fine}, cron: ["30 2 * * *"], except: ["* * 22 3 *"], timezone: Europe/Berlin}
  - {id: hourly, workflow: {name: fine}, cron: ["0 * * * *"]}
  - {id: bad, workflow: {name: broken}, every: 24h, pauseAfterFailures: 2}
  - {id: long, workflow: {name: long}, every: 24h, offset: 6h}
  - {id: absent, workflow: {name: nowhere}, every: 240h}
`

// A scheduleShop is an engine with schedules, in virtual time, and the page of somebody who may act.
type scheduleShop struct {
	t      *testing.T
	engine *pawl.Engine
	rights api.Rights
}

// openScheduleShop opens an engine on 20 March 2000, and lets a week pass: clocks jump on the 26th.
func openScheduleShop(t *testing.T) *scheduleShop {
	t.Helper()
	handlers := pawl.Handlers{
		"do": func(context.Context, pawl.Task) (any, error) { return nil, nil },
		"fail": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "secret", Message: "a secret"}
		},
	}
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: handlers})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	for _, text := range []string{
		"{name: fine, start: a, nodes: [{id: a, task: do}]}", "{name: broken, start: a, nodes: [{id: a, task: fail, retry: {maxAttempts: 1}}]}",
		"{name: long, start: a, nodes: [{id: a, wait: {for: 30h}}]}",
	} {
		_, err = engine.Publish(t.Context(), parse(t, text))
		require.NoError(t, err)
	}
	<-time.After(time.Until(time.Date(2000, 3, 20, 11, 0, 0, 0, time.UTC)))
	set, err := schedule.Parse([]byte(timetable))
	require.NoError(t, err)
	_, err = engine.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
	require.NoError(t, err)
	<-time.After(7 * 24 * time.Hour)
	synctest.Wait()
	return &scheduleShop{t, engine, api.All}
}

// ask sends a request as ann, and returns the status, the text of the page, and where it leads.
func (s *scheduleShop) ask(method, address string, form url.Values) (status int, text, location string) {
	s.t.Helper()
	h := inspector.Handler(s.engine, inspector.Options{Identify: inspector.FromThisMachine("ann", s.rights)})
	r := httptest.NewRequestWithContext(s.t.Context(), method, "http://localhost/"+address, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:999"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, textOf(s.t, w.Body.String()), w.Header().Get("Location")
}

func (s *scheduleShop) see(address string) string {
	s.t.Helper()
	status, text, _ := s.ask(http.MethodGet, address, nil)
	require.Equal(s.t, http.StatusOK, status, "%s: %s", address, text)
	return text
}

// The pages of schedules say when each fires, what has come of its firings and why one was skipped, and have a month of them.
func TestSchedulePages(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		s := openScheduleShop(t)
		require.Contains(t, s.see(""), "1 paused schedule since its runs failed")
		list := s.see("schedules")
		for _, part := range []string{
			"nightly <b> starts fine waits", "Mon 27 Mar 02:30: completed Sun 26 Mar 03:30: completed", "Next Tue 28 Mar 02:30 , Wed 29 Mar 02:30 ,",
			"on the clock of Europe/Berlin.", "on the clock of UTC. ",
			"bad starts broken paused: its runs fail It is paused", "2 failures in a row",
			"long starts long running", "skipped: the run before was not over",
			"absent starts nowhere", "it could not start: ",
		} {
			require.Contains(t, list, part)
		}
		nightly := "schedule?" + url.Values{"id": {"nightly <b>"}}.Encode()
		page := s.see(nightly)
		for _, part := range []string{
			"when 30 2 * * *; not at * * 22 3 *", "on the clock of Europe/Berlin", ", on the clock of Europe/Berlin. ", "March 2000", "Sun 26 26 clocks go from 02:00 to 03:00 03:30 , Sun 26 Mar 03:30: completed",
			"Wed 22 22 02:30 , Wed 22 Mar 02:30: skipped: it is an exception", "Mon 27 27 today", "Fri 31 31 02:30 , Fri 31 Mar 02:30: it fires then",
			"Tue 21 Mar 02:30 completed",
		} {
			require.Contains(t, page, part)
		}
		require.NotContains(t, page, "Sun 19 19 02:30")
		april := s.see(nightly + "&month=2000-04")
		require.Contains(t, april, "April 2000 month before · today · next month")
		require.Contains(t, april, "Sun 30 30 02:30 , Sun 30 Apr 02:30: it fires then")
		require.Contains(t, s.see("schedule?id=hourly"), "Tue 21 21 24 completed")
		require.Contains(t, s.see("schedule?id=hourly"), "Mon 27 27 today 12 completed 12 to come")
		require.Contains(t, s.see("schedule?id=bad"), "it would fire then, if it were not paused")
		for _, address := range []string{"schedule?id=none", "schedule?id=hourly&month=soon", "schedule-act?do=stop&id=hourly"} {
			status, _, _ := s.ask(http.MethodGet, address, nil)
			require.Equal(t, http.StatusNotFound, status, address)
		}
		require.Contains(t, s.see("schedule?id=hourly"), "the last one began late by 0 ms")
		require.NotContains(t, s.see("schedule?id=absent"), "began late", "it has started no run")
		s.rights = api.View
		require.NotContains(t, s.see("schedules"), "not published")
		require.NotContains(t, s.see("schedule?id=hourly"), "Pause")
		status, _, _ := s.ask(http.MethodGet, "schedule-act?do=pause&id=hourly", nil)
		require.Equal(t, http.StatusForbidden, status)
	})
}

// Instants that were skipped together as their schedule was paused are those alone at which it would have fired.
func TestAPauseOverExceptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openScheduleShop(t)
		set, err := schedule.Parse([]byte(`schedules: [{id: work, workflow: {name: fine}, cron: ["0 6,18 * * *"], except: ["* * * * SAT,SUN"]}]`))
		require.NoError(t, err)
		_, err = s.engine.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
		require.NoError(t, err)
		waitUntil := func(day, hour int) {
			<-time.After(time.Until(time.Date(2000, 3, day, hour, 30, 0, 0, time.UTC)))
			synctest.Wait()
		}
		waitUntil(31, 12) // a Friday
		require.NoError(t, s.engine.Schedules().Pause(pawl.As(t.Context(), "ann"), "work"))
		waitUntil(34, 9)
		require.NoError(t, s.engine.Schedules().Resume(pawl.As(t.Context(), "ann"), "work"))
		synctest.Wait()
		april := s.see("schedule?id=work&month=2000-04")
		require.Contains(t, april, "Sat 1 1 Sun 2 2 Mon 3 3 today 06:00 , Mon 3 Apr 06:00: skipped: the schedule was paused 18:00 ,")
		require.Contains(t, april, "Sat 8 8 06:00 , Sat 8 Apr 06:00: left out: it is an exception")
		require.Contains(t, s.see("schedule?id=work&month=2000-03"), "Fri 31 Mar 18:00: skipped: the schedule was paused")
	})
}

// A page shows what would come of an act on a schedule, and changes nothing; the form of it does the act, in a name and for a reason.
func TestScheduleActs(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		s := openScheduleShop(t)
		preview := func(do, id string, more ...string) string {
			return s.see("schedule-act" + "?" + url.Values{"do": {do}, "id": {id}}.Encode() + strings.Join(append([]string{""}, more...), "&"))
		}
		perform := func(do, id string, more url.Values) (int, string, string) {
			form := url.Values{"do": {do}, "id": {id}, "reason": {"holidays"}}
			for name, values := range more {
				form[name] = values
			}
			return s.ask(http.MethodPost, "schedule-act", form)
		}
		require.Contains(t, preview("pause", "hourly"), "It fires no more of itself until it is resumed. The next firings, which would not be: Mon 27 Mar 12:00")
		require.Contains(t, preview("trigger", "long"), "It would be refused: a run of the schedule is not over, and its overlap is skip. long@2000-03-")
		require.Contains(t, preview("trigger", "hourly"), "A run of fine begins now")
		require.Contains(t, preview("delete", "long"), "The runs that it has started stay. Runs that go on: long@2000-03-")
		require.Contains(t, preview("resume", "bad"), "Instants that came while it was paused: 5. They are skipped; a backfill makes up for them. It fires again, next: Tue 28 Mar 00:00")
		require.Contains(t, preview("backfill", "bad"), "Say first from when to when.")
		require.Contains(t, preview("backfill", "bad", "from=2000-03-20T12:00", "to=2000-03-26T12:00"), "4 runs begin, at most 1 at once, with these instants: Thu 23 Mar 00:00 Fri 24 Mar 00:00 Sat 25 Mar 00:00 Sun 26 Mar 00:00")
		require.Contains(t, preview("backfill", "bad", "from=2000-03-20T12:00", "to=2000-03-26T12:00"), "Instants that have had a run already: 2.")
		require.Contains(t, preview("backfill", "bad", "from=2000-03-20T12:00", "to=2000-04-26T12:00"), "It would be refused: a backfill is of instants that have passed: 2000-04-26T12:00:00Z has not.")
		require.Contains(t, preview("backfill", "bad", "from=2000-03-20T12:00", "to=2000-03-26T12:00", "most=500"), "It would be refused: a backfill has 1 to 100 runs at once.")
		require.Contains(t, preview("backfill", "bad", "from=yesterday", "to=2000-04-26T12:00"), `"yesterday" is not a time`)

		status, text, _ := perform("pause", "hourly", url.Values{"reason": {""}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, text, "say why")
		status, text, _ = perform("trigger", "long", nil)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, text, `busy: run "long@2000-03-27T06:00:00Z" of the schedule is not over, and its overlap is skip`)
		status, _, location := perform("pause", "hourly", nil)
		require.Equal(t, http.StatusSeeOther, status)
		require.Contains(t, location, "schedule?id=hourly&told=")
		require.Contains(t, s.see("schedule?id=hourly"), "It is paused since 2000-03-27T11:00:00Z by ann: holidays.")
		require.Contains(t, s.see("schedule?id=hourly"), "paused now ann: holidays")
		for _, do := range []string{"resume", "trigger"} {
			status, text, _ = perform(do, "hourly", nil)
			require.Equal(t, http.StatusSeeOther, status, text)
		}
		status, text, _ = perform("backfill", "bad", url.Values{"from": {"2000-03-20T12:00"}, "to": {"2000-03-26T12:00"}, "most": {"2"}})
		require.Equal(t, http.StatusSeeOther, status, text)
		require.Contains(t, s.see("schedule?id=bad"), "backfills that are not over 1")
		status, _, location = perform("delete", "bad", nil)
		require.Equal(t, http.StatusSeeOther, status)
		require.Contains(t, location, "schedules?told=")
		status, _, _ = s.ask(http.MethodGet, "schedule?id=bad", nil)
		require.Equal(t, http.StatusNotFound, status)
	})
}
