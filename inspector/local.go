package inspector

import (
	"net"
	"net/http"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// Local serves the API of an engine, as api.Local does, and its pages to programs of the same user, for
// pawl.Options.Socket. The command pawl serve shows them in a browser of this machine.
func Local(e *pawl.Engine, l net.Listener) {
	api.LocalWith(func(e *pawl.Engine) http.Handler {
		return Handler(e, Options{Identify: api.LocalCaller})
	})(e, l)
}
