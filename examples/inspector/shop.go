package main

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed order.yaml import.yaml watch.yaml welcome.yaml
var definitions embed.FS

// A shop starts runs, for ever.
type shop struct {
	engine *pawl.Engine
	files  int
	next   int
}

// openShop publishes what the shop does, and starts the first runs.
func (s *shop) openShop(ctx context.Context) error {
	for _, name := range []string{"order", "import", "watch", "welcome"} {
		text, err := definitions.ReadFile(name + ".yaml")
		if err != nil {
			return err
		}
		d, err := workflow.ParseYAML(text)
		if err != nil {
			return err
		}
		if _, err := s.engine.Publish(ctx, d); err != nil {
			return err
		}
	}
	for range 14 {
		if err := s.startNext(ctx); err != nil {
			return err
		}
	}
	return nil
}

var (
	customers = []string{"Ada", "Blaise", "Chien-Shiung", "Dorothy", "Emmy", "Fei-Fei", "Grace", "Hedy"}
	items     = []string{"lamp", "desk", "chair", "kettle", "atlas"}
)

// startNext starts the next run: mostly orders, and some of everything.
func (s *shop) startNext(ctx context.Context) error {
	s.next++
	n := s.next
	customer := customers[n%len(customers)]
	start := func(name string, input map[string]any) error {
		return s.engine.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprintf("%s-%d", name, n)), Workflow: name}, input)
	}
	switch {
	case n%40 == 2:
		return start("import", map[string]any{"files": s.files})
	case n%7 == 3:
		return start("watch", map[string]any{"item": items[n%len(items)], "below": 12 + n%9})
	case n%5 == 4:
		return start("welcome", map[string]any{"customer": customer, "amount": 900})
	}
	amount := 200 + n*137%4000
	if n%6 == 1 {
		amount += 5000
	}
	return start("order", map[string]any{"customer": customer, "amount": amount})
}

// trade starts runs and throws old ones away, until ctx is done.
func (s *shop) trade(ctx context.Context) error {
	tick := time.NewTicker(2500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := s.startNext(ctx); err != nil {
			return err
		}
		if _, err := s.engine.PurgeEnded(ctx, pawl.Retention{Keep: 500}); err != nil {
			return err
		}
	}
}

// handlers do what the tasks ask for: they take some time, and some fail, the same ones each
// time.
func handlers() pawl.Handlers {
	out := pawl.Handlers{}
	for _, name := range []string{"validate", "choose", "apologize", "index", "buy", "greet", "reward"} {
		out[name] = work(300, 900, func(pawl.Task, int) (any, error) { return nil, nil })
	}
	out["quote"] = work(400, 2600, func(t pawl.Task, luck int) (any, error) {
		if luck%9 == 0 && t.Attempt == 1 {
			return nil, pawl.TaskError{Code: "http_503", Message: "the supplier is busy", Retryable: true}
		}
		return map[string]any{"supplier": []string{"acme", "globex", "initech"}[luck%3], "price": 80 + luck%40}, nil
	})
	out["choose"] = work(200, 500, func(t pawl.Task, luck int) (any, error) {
		return map[string]any{"supplier": []string{"acme", "globex", "initech"}[luck%3], "score": float64(luck%100) / 100}, nil
	})
	out["ship"] = work(900, 4000, func(t pawl.Task, luck int) (any, error) {
		switch luck % 11 {
		case 0, 1:
			return nil, pawl.TaskError{Code: "carrier_down", Message: "the carrier does not answer: dial tcp 192.0.2.7:443: i/o timeout", Retryable: true}
		case 2:
			return nil, pawl.TaskError{Code: "out_of_stock", Message: "the shelf is empty"}
		case 3:
			return nil, pawl.Permanent(fmt.Errorf("the address of %v has no street", t.Input.(map[string]any)["customer"]))
		}
		return map[string]any{"parcel": fmt.Sprintf("P-%06d", luck%1000000)}, nil
	})
	out["list"] = work(100, 300, func(t pawl.Task, _ int) (any, error) {
		n, _ := t.Input.(map[string]any)["files"].(int64)
		files := make([]any, n)
		for i := range files {
			files[i] = fmt.Sprintf("catalogue-%05d.csv", i)
		}
		return files, nil
	})
	out["load"] = work(300, 5000, func(t pawl.Task, luck int) (any, error) {
		if luck%61 == 0 {
			return nil, pawl.TaskError{Code: "bad_row", Message: "line 17 has 4 fields, not 5", Retryable: true}
		}
		if luck%13 == 0 && t.Attempt == 1 {
			return nil, pawl.TaskError{Code: "http_503", Message: "the archive is busy", Retryable: true}
		}
		return map[string]any{"rows": 100 + luck%900}, nil
	})
	out["look"] = work(200, 600, func(t pawl.Task, luck int) (any, error) {
		return map[string]any{"price": 10 + (luck+7*t.Attempt+int(time.Now().Unix()))%25}, nil
	})
	return out
}

// work returns a handler that takes between least and most milliseconds; luck is the same in
// every attempt of a task.
func work(least, most int, do func(t pawl.Task, luck int) (any, error)) func(context.Context, pawl.Task) (any, error) {
	return func(ctx context.Context, t pawl.Task) (any, error) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(t.EffectKey)) // never fails
		luck := int(h.Sum32() >> 1)
		pause := time.NewTimer(time.Duration(least+luck%(most-least)) * time.Millisecond)
		defer pause.Stop()
		select {
		case <-pause.C:
			return do(t, luck)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
