package store

import "time"

func wait() {
	time.Sleep(time.Millisecond)
}
