package inspector

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"sync"
)

// The bounds of the answers that are remembered. The oldest are forgotten first, and all with the process.
const (
	keptSent      = 256
	keptSentBytes = 8 << 20 // of all of them together
)

// errSentBefore says that a form that was done was sent again with other fields, as a browser can that has gone back to it.
var errSentBefore = errors.New("a form is done once, and this one was done before, with other fields: nothing more was done. Send the one below if it is to be done again")

// sentForms are the forms that were sent last. Each has a name, which its page has drawn, and is done once under it: a
// click too many or a page that is loaded again sends the same name, and gets the answer of the first time.
//
// The zero value has none. Forms that are being done are as many as there are requests, which package crowd bounds.
type sentForms struct {
	mu    sync.Mutex
	forms map[[sha256.Size]byte]*sentForm
	order [][sha256.Size]byte // those that are answered, oldest first
	bytes int                 // of their answers
}

// A sentForm is one of them. answer is there when done is closed, unless the form was left undone.
type sentForm struct {
	fields [sha256.Size]byte // what was sent
	done   chan struct{}
	answer *answer
}

// An answer is a page, or what leads to one, as it is written to everybody who has sent the form. It is an http.ResponseWriter.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header                { return a.header }
func (a *answer) WriteHeader(status int)             { a.status = status }
func (a *answer) Write(text []byte) (n int, _ error) { return a.body.Write(text) }

// writeTo writes the answer to somebody.
func (a *answer) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // whom it does not reach has gone
}

// performOnce does what a form asks for, and answers it, unless the same person has sent the form before: then it writes the answer of
// that time, for which it waits.
//
// check comes first, with no other of that form under way; its error says what is wrong with the form, which stays undone and may be sent
// again. So does a form by which nothing was done, as perform reports: what refused it may have passed when it is sent again. Errors of
// perform are answered like those of every page, and no reason to do it twice. A form without a name is done each time.
func (p *page) performOnce(fields url.Values, check func() error, perform func() (done bool, err error)) error {
	name := fields.Get("once")
	if name == "" {
		name = rand.Text()
	}
	key, sum := sha256.Sum256([]byte(p.who+"\n"+name)), sha256.Sum256([]byte(fields.Encode()))
	for {
		form, mine := p.s.sent.enterForm(key, sum)
		if mine {
			return p.performFirst(key, form, check, perform)
		}
		select {
		case <-form.done:
		case <-p.r.Context().Done():
			return p.r.Context().Err()
		}
		switch {
		case form.answer == nil: // it was left undone
			continue
		case form.fields != sum:
			return errSentBefore
		}
		form.answer.writeTo(p.w)
		return nil
	}
}

// performFirst is performOnce for the request that does it.
func (p *page) performFirst(key [sha256.Size]byte, form *sentForm, check func() error, perform func() (done bool, err error)) error {
	defer p.s.sent.leaveForm(key, form)
	if err := check(); err != nil {
		return err
	}
	w, a := p.w, &answer{header: http.Header{}, status: http.StatusInternalServerError}
	p.w = a
	form.answer = a // also if it panics: it may have been done
	done, err := perform()
	if err != nil {
		p.showError(err)
	}
	if !done {
		form.answer = nil
	}
	p.w = w
	a.writeTo(w)
	return nil
}

// enterForm returns the form of a name, and whether the caller is to do it, and then to leave it.
func (s *sentForms) enterForm(key, fields [sha256.Size]byte) (form *sentForm, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if form, ok := s.forms[key]; ok {
		return form, false
	}
	if s.forms == nil {
		s.forms = map[[sha256.Size]byte]*sentForm{}
	}
	form = &sentForm{fields: fields, done: make(chan struct{})}
	s.forms[key] = form
	return form, true
}

// leaveForm keeps the answer to a form, or forgets the form if it was left undone.
func (s *sentForms) leaveForm(key [sha256.Size]byte, form *sentForm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(form.done)
	if form.answer == nil {
		delete(s.forms, key)
		return
	}
	s.order = append(s.order, key)
	s.bytes += form.answer.body.Len()
	for len(s.order) > keptSent || s.bytes > keptSentBytes {
		s.bytes -= s.forms[s.order[0]].answer.body.Len()
		delete(s.forms, s.order[0])
		s.order = s.order[1:]
	}
}
