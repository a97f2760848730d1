package inspector

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

// afterwards returns where an act leads, with a parameter of a page: to what it was about, or, if that is much, the inbox.
//
// The address is from the first page, for goTo. A fork leads to the new run, a patch to the definition, an act on a token to that.
func (f *actForm) afterwards(told ...string) string {
	if f.act.options == "fork" {
		return runAddress(workflow.RunID(f.Name), told...)
	}
	switch {
	case f.All != nil:
		return f.All.listAddress(told...)
	case len(f.Targets) > 1, f.Inbox:
		return "inbox" + queryOf(nil, told)
	}
	if f.act.Name == "patch" {
		told = append(told, "view", "definition")
	}
	if t := f.Targets[0]; t.Token != 0 {
		return runAddress(t.Run, append(told, "view", "token", "token", strconv.FormatInt(int64(t.Token), 10))...)
	}
	return runAddress(f.Targets[0].Run, told...)
}

// A toldText is what a page says of the act that led to it.
// place is that of the page that may say it: under the name, no other page does.
type toldText struct{ place, text string }

// keptTold is how many of them are remembered.
// They are forgotten when as many others have come, or with the process. Nothing depends on them.
const keptTold = 256

// tellAfterwards leads to where an act leads, and has the page there say how often it was done. The
// text is kept here under a name that nobody can guess, so that no link of others makes a page say it.
//
// A status of 303 follows the form, so that going back or loading again sends no form twice.
func (p *page) tellAfterwards(f *actForm, done int) error {
	name := rand.Text()
	address := f.afterwards("told", name)
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	// For several it says how many.
	text := "It is done: " + f.act.Past + "."
	if done > 1 {
		text = fmt.Sprintf("It is done: %s %s.", groupDigits(done), f.act.Past)
	}
	p.s.told.keepValue(name, toldText{placeOf(u), text})
	return p.goTo(address)
}

// placeOf returns what a page is about.
// It is the path, and the parameter id of runs that no path can name.
func placeOf(u *url.URL) string { return strings.TrimPrefix(u.Path, "/") + " " + u.Query().Get("id") }

// findTold returns what the act that led to this page has done, for its top; "" if none has.
//
// The zero toldText of a name that is not known has the place "", which no page has: placeOf has a space at least.
func (p *page) findTold() string {
	told, _ := p.s.told.find(p.r.URL.Query().Get("told"))
	if told.place != placeOf(p.r.URL) {
		return ""
	}
	return told.text
}
