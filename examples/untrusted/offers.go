package main

import (
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
)

// offers are the tasks that tenants may use. There is no "*": an unknown type is refused.
type offers struct {
	partner string // a host of ours, with its port, that they may ask; "" allows no host
}

func (o offers) handlers() pawl.Handlers {
	h := pawl.Handlers{
		"transform": handler.Transform(handler.TransformOptions{Cost: 100_000, OutputBytes: 64 << 10}),

		// The public Internet, without credentials: addresses of this machine and its
		// network are refused when a connection to one is made.
		"fetch": handler.HTTP(handler.HTTPOptions{Timeout: 10 * time.Second, ResponseBytes: 64 << 10, MaxRetryAfter: time.Minute}),

		// A fixed program. The text of the tenant is an operand, behind --.
		"count": handler.Exec(handler.ExecOptions{
			Command: []string{"grep", "--count", "--fixed-strings", "--", "{}"},
			Timeout: 30 * time.Second, OutputBytes: 1 << 10,
		}),
	}
	if o.partner != "" {
		// One host within the network. Credentials would be added by Prepare, which
		// needs Hosts and https.
		h["partner"] = handler.HTTP(handler.HTTPOptions{
			Hosts: []string{o.partner}, Private: true, Timeout: 10 * time.Second, ResponseBytes: 64 << 10,
		})
	}
	return h
}
