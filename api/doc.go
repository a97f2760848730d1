// Package api serves an engine over HTTP: its runs, what they wait for and why, and what an
// operator does to them.
//
//	mux.Handle("/pawl/", http.StripPrefix("/pawl", api.Handler(engine, api.Options{Identify: whoIsIt})))
//
// or, for programs of the same user on the same machine such as the command pawl, by a socket in
// the engine directory:
//
//	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: handlers, Socket: api.Local})
//	client, err := api.Dial(ctx, "data") // in another process
//
// The file openapi.yaml beside this one, which GET /v1/openapi.yaml answers, describes every resource; docs/api.md shows
// how to use them. Answers are JSON, texts where people would want texts: statuses, durations, instants of RFC 3339.
// An error is {"error": {status, code, message}}, see Error.
//
// # Who may do what
//
// Options.Identify of the host says who sends a request and which Rights that caller has. Without it
// a Handler serves its own machine only, and reading only: a request must come from a loopback
// address, to one, and through no proxy. Over the socket the same user may do everything.
package api
