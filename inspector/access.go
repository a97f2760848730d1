package inspector

import (
	"errors"
	"net/http"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/loopback"
)

// Errors of requests that are refused.
// showError knows them, and answers each with a status of its own. They go to the caller as they are, so they say nothing of the runs.
var (
	errElsewhere = errors.New("this inspector does not know its callers, so it serves its own machine only: set Options.Identify of package inspector")
	errUnknown   = errors.New("the caller is not known")
	errMethod    = errors.New("this address can be read only")
	errForbidden = errors.New("you may not do that here")
)

// FromThisMachine returns an Options.Identify that takes every sender of a request from
// this machine to a loopback host, through no proxy, for who, with these rights, and
// refuses all others. Every program and every user of the machine can send such a request.
//
// The host counts as well as the address: a page of a stranger whose name resolves to a loopback address is opened in a browser of this
// machine, and its requests come from here, but name that host.
func FromThisMachine(who string, rights api.Rights) func(*http.Request) (string, api.Rights, error) {
	return func(r *http.Request) (string, api.Rights, error) {
		if !loopback.SentRequest(r) {
			return "", 0, errElsewhere
		}
		return who, rights, nil
	}
}

// checkCaller finds out who sends a request, and refuses those who may not even look.
//
// servePage calls it before anything else is looked at, and the stream of a page again while it lasts. It sets who and rights of the
// page. The caller does not get the error of the host's Identify, since that may say more than a stranger should know.
func (s *server) checkCaller(p *page) (err error) {
	identify := s.options.Identify
	if identify == nil {
		// Nobody said who may look: then only this machine may, and nobody may change anything.
		identify = FromThisMachine("", api.View|api.Values)
	}
	if p.who, p.rights, err = identify(p.r); err != nil {
		if errors.Is(err, errElsewhere) {
			return errElsewhere
		}
		return errUnknown
	}
	if p.rights&api.View == 0 {
		return errForbidden
	}
	return nil
}
