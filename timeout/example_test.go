package timeout_test

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/timeout"
)

var start = time.Date(2024, time.May, 1, 12, 0, 0, 0, time.UTC)

func ExampleDeadline() {
	fmt.Println(timeout.Deadline(start, 90*time.Second).Format(time.RFC3339))
	fmt.Println(timeout.Deadline(start, 0).IsZero())
	// Output:
	// 2024-05-01T12:01:30Z
	// true
}

func ExampleText() {
	fmt.Println(timeout.Text(time.Hour), timeout.Text(90*time.Minute), timeout.Text(10*time.Second), timeout.Text(0))
	// Output: 1h 1h30m 10s 0s
}

func ExampleEarliest() {
	retry, join := start.Add(time.Minute), start.Add(time.Hour)
	fmt.Println(timeout.Earliest(time.Time{}, join, retry).Format(time.RFC3339))
	// Output: 2024-05-01T12:01:00Z
}

func ExampleInstant() {
	fmt.Println(timeout.Instant(start.Add(1234567)))
	// Output: 2024-05-01 12:00:00.001 +0000 UTC
}

func ExampleRetry_Delay() {
	r := timeout.Retry{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 3, MaxInterval: 2 * time.Second}
	for attempt := 1; attempt <= 4; attempt++ {
		fmt.Println(r.Delay("order-42", 1, attempt))
	}
	// Output:
	// 100ms
	// 300ms
	// 900ms
	// 2s
}

func ExampleRetry_Delay_jitter() {
	r := timeout.Retry{Jitter: 0.5} // of a second: between 500ms and 1s
	fmt.Println(r.Delay("order-42", 1, 1))
	fmt.Println(r.Delay("order-42", 2, 1))
	fmt.Println(r.Delay("order-42", 2, 1)) // the same again
	// Output:
	// 816ms
	// 680ms
	// 680ms
}
