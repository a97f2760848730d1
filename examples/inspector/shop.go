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

// The inputs and outputs of tasks.
type (
	customer struct {
		Customer string `json:"customer"`
	}
	sale struct {
		Customer string `json:"customer"`
		Amount   int    `json:"amount"`
	}
	offer struct {
		Supplier string `json:"supplier"`
		Price    int    `json:"price"`
	}
	choice struct {
		Supplier string  `json:"supplier"`
		Score    float64 `json:"score"`
	}
	parcel struct {
		Parcel string `json:"parcel"`
	}
	price struct {
		Price int `json:"price"`
	}
	rows struct {
		Rows int `json:"rows"`
	}
	nothing = *struct{}
)

// suppliers are those that are asked for quotes.
var suppliers = []string{"acme", "globex", "initech"}

// handlers do what the tasks ask for: they take some time, and some fail, the same ones each
// time.
func handlers() pawl.Handlers {
	return pawl.Handlers{
		"validate": work(300, 900, func(sale, try) (nothing, error) { return nil, nil }),
		"choose": work(200, 500, func(_ struct {
			Quotes []offer `json:"quotes"`
		}, t try) (choice, error) {
			return choice{suppliers[t.luck%3], float64(t.luck%100) / 100}, nil
		}),
		"apologize": work(300, 900, func(customer, try) (nothing, error) { return nil, nil }),
		"index": work(300, 900, func(struct {
			Loaded []int `json:"loaded"`
		}, try) (nothing, error) {
			return nil, nil
		}),
		"buy": work(300, 900, func(struct {
			Item  string `json:"item"`
			Price int    `json:"price"`
		}, try) (nothing, error) {
			return nil, nil
		}),
		"greet":  work(300, 900, func(customer, try) (nothing, error) { return nil, nil }),
		"reward": work(300, 900, func(customer, try) (nothing, error) { return nil, nil }),
		"quote":  work(400, 2600, quote),
		"ship":   work(900, 4000, ship),
		"list":   work(100, 300, list),
		"load":   work(300, 5000, load),
		"look": work(200, 600, func(_ struct {
			Item string `json:"item"`
		}, t try) (price, error) {
			return price{10 + (t.luck+7*t.attempt+int(time.Now().Unix()))%25}, nil
		}),
	}
}

func quote(_ struct {
	Amount int `json:"amount"`
}, t try,
) (offer, error) {
	if t.luck%9 == 0 && t.attempt == 1 {
		return offer{}, pawl.TaskError{Code: "http_503", Message: "the supplier is busy", Retryable: true}
	}
	return offer{suppliers[t.luck%3], 80 + t.luck%40}, nil
}

func ship(in struct {
	Customer string `json:"customer"`
	Supplier string `json:"supplier"`
}, t try,
) (parcel, error) {
	switch t.luck % 11 {
	case 0, 1:
		return parcel{}, pawl.TaskError{Code: "carrier_down", Message: "the carrier does not answer: dial tcp 192.0.2.7:443: i/o timeout", Retryable: true}
	case 2:
		return parcel{}, pawl.TaskError{Code: "out_of_stock", Message: "the shelf is empty"}
	case 3:
		return parcel{}, pawl.Permanent(fmt.Errorf("the address of %s has no street", in.Customer))
	}
	return parcel{fmt.Sprintf("P-%06d", t.luck%1000000)}, nil
}

func list(in struct {
	Files int `json:"files"`
}, _ try,
) ([]string, error) {
	files := make([]string, in.Files)
	for i := range files {
		files[i] = fmt.Sprintf("catalogue-%05d.csv", i)
	}
	return files, nil
}

func load(_ struct {
	File string `json:"file"`
}, t try,
) (rows, error) {
	if t.luck%61 == 0 {
		return rows{}, pawl.TaskError{Code: "bad_row", Message: "line 17 has 4 fields, not 5", Retryable: true}
	}
	if t.luck%13 == 0 && t.attempt == 1 {
		return rows{}, pawl.TaskError{Code: "http_503", Message: "the archive is busy", Retryable: true}
	}
	return rows{100 + t.luck%900}, nil
}

// A try is an attempt of a task: its luck is the same in every attempt.
type try struct{ luck, attempt int }

// work returns a handler that takes between least and most milliseconds.
func work[In, Out any](least, most int, do func(in In, t try) (Out, error)) func(context.Context, pawl.Task) (any, error) {
	return pawl.Typed(func(ctx context.Context, in In) (out Out, err error) {
		t := pawl.TaskFrom(ctx)
		h := fnv.New32a()
		_, _ = h.Write([]byte(t.EffectKey)) // never fails
		luck := int(h.Sum32() >> 1)
		pause := time.NewTimer(time.Duration(least+luck%(most-least)) * time.Millisecond)
		defer pause.Stop()
		select {
		case <-pause.C:
			return do(in, try{luck, t.Attempt})
		case <-ctx.Done():
			return out, ctx.Err()
		}
	})
}
